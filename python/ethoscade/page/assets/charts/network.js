// A network as rows in execution order, its tensors as lines from who makes them to who reads them:
// { tensors: number of them, rows: [{name, kind, shape, where, cascade, note, reason, lines, reads: [tensor], makes: [tensor]}] }
// Tensors that several read, or that are read much later, run beside the others in lanes of their own.
page.charts.network = (drawing, data) => {
  const longest = Math.max(...data.rows.map((row) => row.kind.length));
  const line = 24, wide = 15, left = 96;
  const scroller = drawing.appendChild(page.make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'The network' }));
  const canvas = scroller.appendChild(page.svg('svg', { role: 'group' }));
  const { lanes, nodes, tensors } = layout();
  const gutter = left + lanes * wide;

  function layout() {
    const last = new Map(), made = new Map();
    data.rows.forEach((row, place) => {
      row.reads.forEach((tensor) => last.set(tensor, place));
      row.makes.forEach((tensor) => made.set(tensor, place));
    });
    const held = [], places = new Map(), at = [];
    const free = () => { const lane = held.findIndex((one) => one === undefined); return lane < 0 ? held.length : lane; };
    const hold = (tensor, lane) => { held[lane] = tensor; places.set(tensor, lane); };
    for (const tensor of [...last.keys()]) if (!made.has(tensor)) hold(tensor, free());
    data.rows.forEach((row, place) => {
      const ending = row.reads.filter((tensor) => places.has(tensor) && last.get(tensor) === place);
      ending.forEach((tensor) => { held[places.get(tensor)] = undefined; });
      const lane = ending.length ? Math.min(...ending.map((tensor) => places.get(tensor))) : free();
      at.push(lane);
      row.makes.filter((tensor) => last.has(tensor)).forEach((tensor, index) => hold(tensor, index === 0 && held[lane] === undefined ? lane : free()));
    });
    return { lanes: Math.max(held.length, ...at.map((lane) => lane + 1), 1), nodes: at, tensors: { last, made, places } };
  }

  const x = (lane) => left + 8 + lane * wide;
  const y = (row) => 26 + row * line;

  function draw() {
    const width = Math.max(scroller.clientWidth, 720), height = y(data.rows.length) + 4;
    canvas.setAttribute('viewBox', `0 0 ${width} ${height}`);
    canvas.setAttribute('height', height);
    canvas.style.width = `${width}px`;
    canvas.replaceChildren();
    cascades(width);
    edges();
    data.rows.forEach((row, place) => node(row, place, width));
  }

  function cascades(width) {
    for (let from = 0; from < data.rows.length; ) {
      const number = data.rows[from].cascade;
      let to = from + 1;
      while (to < data.rows.length && data.rows[to].cascade === number) to++;
      if (number) {
        canvas.append(
          page.svg('rect', { x: 0, y: y(from) - line / 2 + 1, width, height: (to - from) * line - 2, rx: 5, fill: 'var(--c2)', 'fill-opacity': 0.13 }),
          page.svg('rect', { x: 0, y: y(from) - line / 2 + 1, width: 4, height: (to - from) * line - 2, rx: 2, fill: 'var(--c2)' }),
          page.svg('text', { x: 11, y: y(from) + 4 }, `cascade ${number}`),
        );
      }
      from = to;
    }
  }

  function edges() {
    let path = '';
    data.rows.forEach((row, place) => row.reads.forEach((tensor) => {
      const lane = tensors.places.get(tensor);
      if (lane === undefined) return;
      const from = tensors.made.has(tensor) ? tensors.made.get(tensor) : -0.75;
      const start = tensors.made.has(tensor) ? nodes[from] : lane;
      path += `M${x(start)} ${y(from)}`;
      if (start !== lane) path += `C${x(start)} ${y(from + 0.6)} ${x(lane)} ${y(from + 0.4)} ${x(lane)} ${y(from + 1)}`;
      if (nodes[place] === lane) path += `V${y(place)}`;
      else {
        if (place - 1 > from) path += `V${y(place - 1)}`;
        path += `C${x(lane)} ${y(place - 0.4)} ${x(nodes[place])} ${y(place - 0.6)} ${x(nodes[place])} ${y(place)}`;
      }
    }));
    canvas.append(page.svg('path', { d: path, fill: 'none', stroke: 'var(--c1)', 'stroke-width': 1.6 }));
  }

  function node(row, place, width) {
    const group = page.svg('g', { class: `node ${row.where}` }, page.svg('rect', { x: 0, y: y(place) - line / 2, width, height: line, fill: 'transparent' }));
    const at = x(nodes[place]);
    group.append(row.where === 'cpu'
      ? page.svg('rect', { x: at - 5, y: y(place) - 5, width: 10, height: 10, fill: 'var(--c6)' })
      : page.svg('circle', { cx: at, cy: y(place), r: 4.5, fill: 'var(--c4)' }));
    const kinds = gutter + 10, names = kinds + longest * 8.2 + 14, ends = width - 12;
    group.append(
      page.svg('text', { x: kinds, y: y(place) + 4, class: 'kind' }, row.kind),
      page.svg('text', { x: names, y: y(place) + 4 }, ending(row.where === 'cpu' ? `CPU: ${row.reason}` : row.name, (ends - 250 - names) / 6.9, row.where === 'cpu')),
      page.svg('text', { x: ends - 110, y: y(place) + 4, 'text-anchor': 'end' }, row.shape),
      page.svg('text', { x: ends, y: y(place) + 4, 'text-anchor': 'end' }, row.note),
    );
    canvas.append(page.tells(group, row.lines));
  }

  // Of a name the end tells most, of a reason the beginning.
  function ending(text, letters, head) {
    const most = Math.max(8, Math.floor(letters));
    if (text.length <= most) return text;
    return head ? `${text.slice(0, most - 1)}…` : `…${text.slice(1 - most)}`;
  }

  new ResizeObserver(draw).observe(scroller);
};

// Bars in rows: { title, parts: [{name, colour}], rows: [{name, note, values: [number for each part], lines: [...]}] }
// Parts follow each other along a bar; `lines` are told about a row, `note` stands at its end. Many rows can be put in
// order of their length.
page.charts.bars = (drawing, data) => {
  const longest = Math.max(...data.rows.map((row) => row.name.length));
  const line = 19, top = data.title ? 20 : 2;
  const most = Math.max(...data.rows.map((row) => row.values.reduce((a, b) => a + b, 0)), 1);
  const tools = drawing.appendChild(page.make('div', { class: 'tools' }, page.legend(data.parts.map((part) => [part.name, part.colour])), page.make('span')));
  const scroller = drawing.appendChild(page.make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': data.title }));
  const canvas = scroller.appendChild(page.svg('svg', { role: 'group' }));
  let rows = data.rows;
  if (rows.length > 12) {
    const order = tools.appendChild(page.make('button', { type: 'button', class: 'order' }, 'Longest first'));
    order.addEventListener('click', () => {
      const length = (row) => row.values.reduce((a, b) => a + b, 0);
      rows = rows === data.rows ? [...data.rows].sort((a, b) => length(b) - length(a)) : data.rows;
      order.textContent = rows === data.rows ? 'Longest first' : 'In execution order';
      draw();
    });
  }

  function draw() {
    const width = Math.max(scroller.clientWidth, 280), height = top + line * rows.length + 4;
    const names = Math.min(longest * 7 + 12, 360, width * 0.34), notes = 150;
    const scale = (width - names - notes) / most;
    canvas.setAttribute('viewBox', `0 0 ${width} ${height}`);
    canvas.setAttribute('height', height);
    canvas.replaceChildren(page.svg('text', { x: names, y: 11 }, data.title));
    rows.forEach((row, place) => {
      const y = top + line * place;
      const bar = page.svg('g', {}, page.svg('rect', { x: 0, y, width, height: line, fill: 'transparent' }));
      bar.append(page.svg('text', { x: names - 8, y: y + 13, 'text-anchor': 'end' }, shortened(row.name, names / 7)));
      let x = names;
      row.values.forEach((value, part) => {
        if (!value) return;
        bar.append(page.svg('rect', { x, y: y + 3, width: Math.max(value * scale, 0.5), height: line - 6, fill: `var(--${data.parts[part].colour})` }));
        x += value * scale;
      });
      bar.append(page.svg('text', { x: x + 6, y: y + 13 }, row.note));
      canvas.append(page.tells(bar, [row.name, ...row.lines]));
    });
  }

  // The end of a name tells more than its beginning, which operators share.
  function shortened(name, letters) {
    return name.length > letters ? `…${name.slice(-Math.floor(letters) + 1)}` : name;
  }

  new ResizeObserver(draw).observe(scroller);
};

// Curves: { x: {title, kib}, y: {title}, series: [{name, points: [[x, y, line...]], steps}], marks: [{x, name}] }
// `x.kib` says that x are bytes, `steps` joins points as a staircase, a point's `line`s are told about it, and `hollow`
// is the place of the point that is drawn large. Marks are vertical lines with a name.
page.charts.steps = (drawing, data) => {
  const height = 320, edge = { left: 64, right: 18, top: 22, bottom: 42 };
  const all = data.series.flatMap((one) => one.points);
  const farthest = Math.max(...all.map((p) => p[0]), ...data.marks.map((m) => m.x), 1);
  const highest = Math.max(...all.map((p) => p[1]), 1);
  const unit = data.x.kib ? 1024 : 1;
  if (data.series.length > 1) drawing.append(page.legend(data.series.map((one, index) => [one.name, colour(index)])));
  const canvas = drawing.appendChild(page.svg('svg', { role: 'group' }));

  function draw() {
    const width = Math.max(drawing.clientWidth, 280);
    canvas.setAttribute('viewBox', `0 0 ${width} ${height}`);
    canvas.setAttribute('height', height);
    canvas.replaceChildren();
    const x = (value) => edge.left + (value / (farthest * 1.04)) * (width - edge.left - edge.right);
    const y = (value) => height - edge.bottom - (value / (highest * 1.06)) * (height - edge.top - edge.bottom);
    axes(canvas, width, x, y);
    data.marks.forEach((mark, index) => {
      const at = x(mark.x), left = at > width * 0.6;
      canvas.append(
        page.svg('line', { x1: at, x2: at, y1: edge.top, y2: height - edge.bottom, stroke: 'var(--quiet)', 'stroke-dasharray': '3 3' }),
        page.svg('text', { x: at + (left ? -5 : 5), y: edge.top + 4 + 14 * index, 'text-anchor': left ? 'end' : 'start' }, mark.name),
      );
    });
    data.series.forEach((one, index) => {
      if (one.steps && one.points.length > 1) {
        const [first, ...rest] = one.points;
        let path = `M${x(first[0])} ${y(first[1])}`;
        for (const p of rest) path += `H${x(p[0])}V${y(p[1])}`;
        canvas.append(page.svg('path', { d: path, fill: 'none', stroke: `var(--${colour(index)})`, 'stroke-width': 1.6 }));
      }
      one.points.forEach((p, place) => {
        const large = place === one.hollow;
        const look = { cx: x(p[0]), cy: y(p[1]), r: large ? 6 : 3.2, stroke: `var(--${colour(index)})`, 'stroke-width': large ? 2.5 : 1 };
        const mark = page.svg('circle', { ...look, fill: large ? 'var(--card)' : `var(--${colour(index)})` });
        canvas.append(page.tells(mark, [one.name, ...p.slice(2)]));
      });
    });
  }

  function axes(canvas, width, x, y) {
    for (const tick of page.ticks(farthest / unit, width / 110)) {
      canvas.append(page.svg('text', { x: x(tick * unit), y: height - edge.bottom + 17, 'text-anchor': 'middle' }, page.number(tick)));
    }
    for (const tick of page.ticks(highest, 5)) {
      canvas.append(
        page.svg('line', { x1: edge.left, x2: width - edge.right, y1: y(tick), y2: y(tick), stroke: 'var(--line)' }),
        page.svg('text', { x: edge.left - 8, y: y(tick) + 4, 'text-anchor': 'end' }, page.number(tick)),
      );
    }
    canvas.append(
      page.svg('text', { x: (edge.left + width - edge.right) / 2, y: height - 6, 'text-anchor': 'middle' }, data.x.title),
      page.svg('text', { x: 4, y: 10 }, data.y.title),
    );
  }

  function colour(index) {
    return ['c4', 'c3', 'c2', 'c5', 'c6', 'c8', 'c1', 'c7'][index % 8];
  }

  new ResizeObserver(draw).observe(drawing);
};

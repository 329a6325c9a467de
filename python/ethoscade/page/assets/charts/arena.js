// The arena, address against time:
// { arena, budget, operators: [[name, cascade or 0, where]], peak: its step,
//   steps: [operator[], what[], number[], of[], first row[], last row[], rows[], cycles[]], whats: [name], alive: [bytes in use at each step],
//   kinds: [[name, colour]], holders: [[name, kind, offset, size, windows, writes, reads]] }
// `windows` are first step, last step, low and high, one after the other. Whoever points at a byte, or moves the cursor
// there by keys, is told whose it is, and why it is held.
page.charts.arena = (drawing, data, figure) => {
  const [operatorOf, whatOf, numberOf, countOf, firstRow, lastRow, rowsOf, cyclesOf] = data.steps;
  const total = operatorOf.length;
  const edge = { left: 74, right: 12, top: 18 }, plot = 400, gap = 8, lane = 18, live = 54, axis = 34;
  const height = edge.top + plot + gap + lane + gap + live + axis;
  const top = Math.max(data.arena, data.budget ?? 0) * 1.03;
  const elapsed = [0];
  cyclesOf.forEach((cycles, step) => elapsed.push(elapsed[step] + (data.whats[whatOf[step]] === 'stripe' ? cycles : 0)));
  // Copies are issued while something else runs, mostly what is before them.
  const computes = (step) => ['stripe', 'CPU'].includes(data.whats[whatOf[step]]);
  const running = [];
  for (let step = 0, last = operatorOf.find((_, at) => computes(at)) ?? 0; step < total; step++) {
    if (computes(step)) last = operatorOf[step];
    running.push(last);
  }

  let byCycles = false, view = [0, total], cursor = null, dragged = null, base = null, width = 0;
  const canvas = page.make('canvas', {
    tabindex: '0', role: 'application', 'aria-label': `${figure.querySelector('figcaption').textContent}: arrow keys move the cursor, plus and minus zoom, Escape shows all`,
  });
  const readout = page.make('p', { class: 'readout', 'aria-live': 'polite' }, 'Point at a byte, or move there with the arrow keys. Drag over steps to zoom in.');
  const time = page.make('button', { type: 'button', class: 'time' }, 'Time in cycles');
  const whole = page.make('button', { type: 'button', class: 'whole' }, 'Show all steps');
  drawing.append(page.make('div', { class: 'tools' }, page.legend(data.kinds), page.make('span'), whole, time), canvas, readout);
  time.disabled = elapsed[total] === 0;

  // Time runs in steps, or in the cycles of their operations; copies and the CPU take none of these.
  const at = (step) => (byCycles ? elapsed[step] : step);
  const x = (step) => edge.left + ((at(step) - at(view[0])) / (at(view[1]) - at(view[0]) || 1)) * (width - edge.left - edge.right);
  const y = (byte) => edge.top + plot * (1 - byte / top);
  const laneTop = edge.top + plot + gap, liveTop = laneTop + lane + gap, bottom = liveTop + live;

  const snapped = (pixel) => Math.round(pixel * devicePixelRatio) / devicePixelRatio;

  function stepAt(pixel) {
    const wanted = at(view[0]) + ((pixel - edge.left) / (width - edge.left - edge.right)) * (at(view[1]) - at(view[0]));
    let low = view[0], high = view[1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (at(middle) <= wanted) low = middle; else high = middle;
    }
    return Math.min(low, total - 1);
  }

  function layer() {
    const made = document.createElement('canvas');
    made.width = canvas.width;
    made.height = canvas.height;
    const pen = made.getContext('2d');
    pen.scale(devicePixelRatio, devicePixelRatio);
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    return [made, pen];
  }

  function resize() {
    width = Math.max(drawing.clientWidth, 320);
    canvas.width = width * devicePixelRatio;
    canvas.height = height * devicePixelRatio;
    canvas.style.height = `${height}px`;
    paint();
  }

  function paint() {
    const [made, pen] = layer();
    const ink = Object.fromEntries(['ink', 'quiet', 'line', 'faint', 'card', 'bad', 'accent', 'c2', 'c6'].map((name) => [name, page.colour(name)]));
    grid(pen, ink);
    pen.save();
    pen.beginPath();
    pen.rect(edge.left, 0, width - edge.left - edge.right, bottom);
    pen.clip();
    holders(pen, ink);
    lanes(pen, ink);
    bytesAlive(pen, ink);
    pen.restore();
    limits(pen, ink);
    base = made;
    overlay();
  }

  function grid(pen, ink) {
    pen.fillStyle = ink.faint;
    pen.fillRect(edge.left, edge.top, width - edge.left - edge.right, plot);
    pen.textAlign = 'right';
    for (const tick of page.ticks(top, 6, 2)) {
      pen.fillStyle = ink.line;
      pen.fillRect(edge.left, y(tick), width - edge.left - edge.right, 1);
      pen.fillStyle = ink.quiet;
      pen.fillText(page.kib(tick), edge.left - 7, y(tick) + 4);
    }
    pen.fillText('runs', edge.left - 7, laneTop + 13);
    pen.fillText('in use', edge.left - 7, liveTop + 13);
    pen.textAlign = 'center';
    const from = at(view[0]), to = at(view[1]);
    for (const tick of page.ticks(to - from, width / 120, 10, true)) {
      const place = edge.left + (tick / (to - from || 1)) * (width - edge.left - edge.right);
      pen.fillText(page.number(from + tick), Math.min(place, width - edge.right - 14), bottom + 15);
    }
    pen.fillText(byCycles ? 'cycles (operations alone, one after the other)' : 'step', (edge.left + width) / 2, bottom + 30);
  }

  function holders(pen, ink) {
    const colours = data.kinds.map(([, name]) => page.colour(name));
    pen.lineWidth = 0.75;
    for (const [, kind, offset, , windows] of data.holders) {
      pen.fillStyle = colours[kind];
      pen.strokeStyle = ink.card;
      for (let w = 0; w < windows.length; w += 4) {
        if (windows[w + 1] <= view[0] || windows[w] >= view[1] || windows[w + 3] <= windows[w + 2]) continue;
        // On whole pixels: between two windows of one buffer there is no seam.
        const left = snapped(x(windows[w])), right = snapped(x(windows[w + 1]));
        const high = y(offset + windows[w + 3]), low = y(offset + windows[w + 2]);
        pen.fillRect(left, high, Math.max(right - left, 0.6), Math.max(low - high, 0.6));
        // Windows of one buffer that follow each other are one shape: only its first and last edge are drawn.
        if (low - high > 3 && right - left > 2) {
          pen.beginPath();
          pen.moveTo(left, high); pen.lineTo(right, high);
          pen.moveTo(left, low); pen.lineTo(right, low);
          if (w === 0) { pen.moveTo(left, high); pen.lineTo(left, low); }
          if (w + 4 === windows.length) { pen.moveTo(right, high); pen.lineTo(right, low); }
          pen.stroke();
        }
      }
    }
  }

  // What runs: each cascade is one bar with its number, every other operator one by itself.
  function lanes(pen, ink) {
    pen.textAlign = 'center';
    let from = 0, odd = false;
    for (let step = 1; step <= total; step++) {
      const [, cascade, where] = data.operators[running[from]];
      const same = step < total && (cascade ? data.operators[running[step]][1] === cascade : running[step] === running[from]);
      if (same) continue;
      const left = x(from), right = x(step);
      pen.globalAlpha = cascade ? 0.85 : where === 'cpu' ? 1 : odd ? 0.55 : 0.3;
      pen.fillStyle = cascade ? ink.c2 : where === 'cpu' ? ink.c6 : ink.quiet;
      pen.fillRect(left, laneTop, Math.max(right - left - (right - left > 3 ? 1 : 0), 0.6), lane);
      pen.globalAlpha = 1;
      const label = cascade ? `cascade ${cascade}` : where === 'cpu' ? 'CPU' : '';
      if (label && right - left > pen.measureText(label).width + 8) {
        pen.fillStyle = ink.card;
        pen.fillText(label, (left + right) / 2, laneTop + 13);
      }
      odd = !odd;
      from = step;
    }
  }

  function bytesAlive(pen, ink) {
    const most = Math.max(...data.alive, 1);
    pen.beginPath();
    pen.moveTo(x(0), bottom);
    for (let step = 0; step < total; step++) {
      const level = bottom - (data.alive[step] / most) * (live - 4);
      pen.lineTo(x(step), level);
      pen.lineTo(x(step + 1), level);
    }
    pen.lineTo(x(total), bottom);
    pen.closePath();
    pen.fillStyle = ink.quiet;
    pen.globalAlpha = 0.35;
    pen.fill();
    pen.globalAlpha = 1;
  }

  function limits(pen, ink) {
    const lines = [[data.arena, `arena ${page.kib(data.arena)}`, ink.ink]];
    if (data.budget !== null) lines.push([data.budget, `budget ${page.kib(data.budget)}`, ink.bad]);
    pen.lineWidth = 1.2;
    lines.forEach(([bytes, name, colour], index) => {
      pen.strokeStyle = pen.fillStyle = colour;
      pen.setLineDash(index ? [5, 4] : []);
      pen.beginPath();
      pen.moveTo(edge.left, y(bytes));
      pen.lineTo(width - edge.right, y(bytes));
      pen.stroke();
      pen.textAlign = index ? 'right' : 'left';
      pen.fillText(name, index ? width - edge.right : edge.left, edge.top - 6);
    });
    if (data.peak >= view[0] && data.peak < view[1]) {
      const middle = (x(data.peak) + x(data.peak + 1)) / 2;
      pen.setLineDash([2, 3]);
      pen.strokeStyle = ink.ink;
      pen.beginPath();
      pen.moveTo(middle, edge.top);
      pen.lineTo(middle, bottom);
      pen.stroke();
      pen.fillStyle = ink.ink;
      const left = middle > width * 0.75;
      pen.textAlign = left ? 'right' : 'left';
      pen.fillText(`peak ${page.kib(data.alive[data.peak])}`, middle + (left ? -5 : 5), liveTop + 12);
    }
    pen.setLineDash([]);
  }

  function overlay() {
    const pen = canvas.getContext('2d');
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(base, 0, 0);
    pen.scale(devicePixelRatio, devicePixelRatio);
    if (dragged) {
      pen.fillStyle = page.colour('accent');
      pen.globalAlpha = 0.15;
      pen.fillRect(Math.min(...dragged), edge.top, Math.abs(dragged[1] - dragged[0]), plot);
      pen.globalAlpha = 1;
    }
    if (!cursor) return;
    const [step, byte] = cursor, found = holderAt(step, byte);
    pen.strokeStyle = page.colour('ink');
    pen.lineWidth = 1.6;
    if (found) {
      const [, , offset, , windows] = found;
      for (let w = 0; w < windows.length; w += 4) {
        if (windows[w + 3] <= windows[w + 2]) continue;
        const left = Math.max(x(windows[w]), edge.left), right = Math.min(x(windows[w + 1]), width - edge.right);
        if (right > left) pen.strokeRect(left, y(offset + windows[w + 3]), Math.max(right - left, 1), y(offset + windows[w + 2]) - y(offset + windows[w + 3]));
      }
    }
    pen.lineWidth = 1;
    pen.globalAlpha = 0.6;
    pen.beginPath();
    const middle = (x(step) + x(step + 1)) / 2;
    pen.moveTo(middle, edge.top); pen.lineTo(middle, bottom);
    pen.moveTo(edge.left, y(byte)); pen.lineTo(width - edge.right, y(byte));
    pen.stroke();
    pen.globalAlpha = 1;
  }

  function holderAt(step, byte) {
    return data.holders.find(([, , offset, size, windows]) => {
      if (byte < offset || byte >= offset + size) return false;
      for (let w = 0; w < windows.length; w += 4) {
        if (windows[w] <= step && step < windows[w + 1]) return byte >= offset + windows[w + 2] && byte < offset + windows[w + 3];
      }
      return false;
    });
  }

  function runs(step) {
    const [name, cascade, where] = data.operators[operatorOf[step]];
    const what = data.whats[whatOf[step]];
    const words = { stripe: `stripe ${numberOf[step]} of ${countOf[step]}`, copy: 'its constants are copied', table: 'its table is loaded', CPU: 'on the CPU' }[what];
    const rows = what === 'stripe' && countOf[step] > 1 ? `, rows ${firstRow[step]} to ${lastRow[step] - 1} of ${rowsOf[step]}` : '';
    return `step ${step}: ${name}${cascade && where === 'npu' ? `, cascade ${cascade}` : ''}, ${words}${rows}`;
  }

  function why(step, [, kind, , , , writes, reads]) {
    const name = (at) => data.operators[operatorOf[at]][0];
    if (writes.includes(step)) return `because ${name(step)} writes it in this step`;
    if (reads.includes(step)) return `because ${name(step)} reads it in this step`;
    const next = reads.find((at) => at > step);
    if (next !== undefined) return `because ${name(next)} still reads it, in step ${next}`;
    const more = writes.find((at) => at > step);
    if (more !== undefined) return `because ${name(more)} goes on writing it, in step ${more}`;
    return { input: 'because it is an input', output: 'because the caller gets it after the run', state: 'because it is kept for the next run' }[data.kinds[kind][0]] ?? 'until the step ends';
  }

  function tell() {
    const [step, byte] = cursor, found = holderAt(step, byte);
    const where = `byte ${page.number(byte)}`;
    if (!found) return ['free', `${where}`, runs(step), `${page.number(data.alive[step])} bytes in use`];
    const [name, kind, offset, size, windows, writes] = found;
    let held = 0;
    for (let w = 0; w < windows.length; w += 4) if (windows[w] <= step && step < windows[w + 1]) held = windows[w + 3] - windows[w + 2];
    const makers = [...new Set(writes.map((at) => data.operators[operatorOf[at]][0]))];
    return [
      name,
      `${data.kinds[kind][0]}, ${page.number(held)} of ${page.number(size)} bytes in use, from byte ${page.number(offset)} on`,
      ...(makers.length ? [`written by ${makers.join(', ')}`] : []),
      `held ${why(step, found)}`,
      `${where}; ${runs(step)}`,
    ];
  }

  function point(step, byte, place) {
    cursor = [Math.min(Math.max(step, 0), total - 1), Math.min(Math.max(Math.round(byte), 0), Math.floor(top))];
    const lines = tell();
    readout.textContent = lines.join(' · ');
    overlay();
    const box = canvas.getBoundingClientRect();
    const [left, above] = place ?? [box.left + (x(cursor[0]) + x(cursor[0] + 1)) / 2, box.top + y(cursor[1])];
    page.showTip(lines, left, above);
  }

  function look(from, to) {
    view = to - from >= 1 ? [Math.max(0, from), Math.min(total, to)] : [0, total];
    whole.hidden = view[0] === 0 && view[1] === total;
    paint();
  }

  function zoom(factor) {
    const middle = cursor ? cursor[0] : (view[0] + view[1]) / 2, half = Math.max(((view[1] - view[0]) * factor) / 2, 1);
    const from = Math.max(0, Math.floor(middle - half));
    look(from, Math.min(total, Math.ceil(from + 2 * half)));
  }

  canvas.addEventListener('pointermove', (event) => {
    const left = event.offsetX, above = event.offsetY;
    if (dragged) dragged[1] = left;
    if (left < edge.left || left > width - edge.right || above < edge.top || above > bottom) return page.hideTip();
    point(stepAt(left), Math.max(0, (1 - (above - edge.top) / plot) * top), [event.clientX, event.clientY]);
  });
  canvas.addEventListener('pointerleave', () => { page.hideTip(); cursor = null; overlay(); });
  canvas.addEventListener('pointerdown', (event) => { dragged = [event.offsetX, event.offsetX]; });
  addEventListener('pointerup', () => {
    if (!dragged) return;
    const [from, to] = [...dragged].sort((a, b) => a - b);
    dragged = null;
    if (to - from > 6) look(stepAt(Math.max(from, edge.left)), stepAt(to) + 1);
  });
  canvas.addEventListener('focus', () => { if (canvas.matches(':focus-visible')) point(...(cursor ?? [data.peak, data.arena / 2])); });
  canvas.addEventListener('blur', page.hideTip);
  canvas.addEventListener('keydown', (event) => {
    const [step, byte] = cursor ?? [data.peak, data.arena / 2], wide = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: [-wide, 0], ArrowRight: [wide, 0], ArrowUp: [0, (wide * top) / 100], ArrowDown: [0, (-wide * top) / 100] };
    if (event.key in moves) {
      const [steps, bytes] = moves[event.key];
      const to = Math.min(Math.max(step + steps, 0), total - 1);
      if (to < view[0] || to >= view[1]) look(to - Math.floor((view[1] - view[0]) / 2), to + Math.ceil((view[1] - view[0]) / 2));
      point(to, byte + bytes);
    } else if (event.key === '+') zoom(0.5);
    else if (event.key === '-') zoom(2);
    else if (event.key === 'Escape') look(0, total);
    else return;
    event.preventDefault();
  });
  whole.addEventListener('click', () => look(0, total));
  whole.hidden = true;
  time.addEventListener('click', () => {
    byCycles = !byCycles;
    time.textContent = byCycles ? 'Time in steps' : 'Time in cycles';
    paint();
  });
  addEventListener('repaint', paint);
  new ResizeObserver(resize).observe(drawing);
};

// How many subjects fit by SRAM, for a time and a share that the reader sets:
// { subject, targets: [{name, size, fronts: [[[bytes, milliseconds]...] for each subject that runs]}], count, time, share }
// `size` orders targets, `count` is how many subjects there are, `time` null for any; fronts ascend in bytes.
page.charts.needs = (drawing, data) => {
  const time = field('at most', 'ms', data.time ?? '', { min: 0, step: 'any', placeholder: 'any' });
  const share = field('for', `% of ${data.subject}`, data.share, { min: 0, max: 100, step: 'any' });
  const answer = page.make('p', { role: 'status', class: 'answer' });
  const shown = page.make('div', { class: 'drawing' });
  drawing.append(page.make('div', { class: 'tools' }, ...time.parts, ...share.parts), answer, shown);

  function field(before, after, value, attributes) {
    const input = page.make('input', { type: 'number', value, ...attributes, 'aria-label': `${before} ${after}` });
    input.addEventListener('input', draw);
    return { input, parts: [page.make('label', {}, `${before} `, input, ` ${after}`)] };
  }

  // Bytes that each subject needs, ascending, of those that are fast enough.
  function needs(target, limit) {
    const found = target.fronts.map((front) => front.find((point) => limit === null || (point[1] !== null && point[1] <= limit)));
    return found.filter((point) => point).map((point) => point[0]).sort((a, b) => a - b);
  }

  function draw() {
    const limit = time.input.value === '' ? null : Number(time.input.value);
    const count = Math.max(1, Math.ceil((data.count * Number(share.input.value)) / 100 - 1e-9));
    const all = data.targets.map((target) => ({ target, needs: needs(target, limit) }));
    const words = limit === null ? 'run' : `take at most ${page.number(limit)} ms`;
    answer.textContent = told(all, count, words);
    const most = Math.max(...all.flatMap((one) => one.needs.slice(-1)), 1);
    const series = all.filter((one) => one.needs.length).map((one) => ({
      name: one.target.name,
      steps: true,
      points: points(one.needs, most),
    }));
    const fresh = page.make('div');
    shown.replaceChildren(fresh);
    page.charts.steps(fresh, { x: { title: 'SRAM (KiB)', kib: true }, y: { title: `% of ${data.subject} that ${words}` }, series, marks: [] });
  }

  function points(sizes, most) {
    const ends = sizes.map((size, index) => [size, index + 1]).filter(([size], index) => size !== sizes[index + 1]);
    if (ends.at(-1)[0] < most) ends.push([most, sizes.length]);
    return ends.map(([size, fit]) => {
      const part = (100 * fit) / data.count;
      return [size, part, `${fit} of ${data.count} ${data.subject}: ${page.number(part)} %`, page.kib(size)];
    });
  }

  function told(all, count, words) {
    const enough = all.filter((one) => one.needs.length >= count);
    if (enough.length) {
      const need = (one) => one.needs[count - 1];
      const best = enough.reduce((a, b) => (b.target.size - a.target.size || need(b) - need(a)) < 0 ? b : a);
      const fit = best.needs.filter((size) => size <= need(best)).length;
      return `${fit} of ${data.count} ${data.subject} ${words} on ${best.target.name} in ${page.kib(need(best))} of SRAM; no smaller target does that.`;
    }
    const most = all.reduce((a, b) => (b.needs.length > a.needs.length ? b : a));
    if (!most.needs.length) return `No target here is enough: none of the ${data.subject} ${words}.`;
    return `No target here is enough: ${most.needs.length} of ${data.count} ${data.subject} ${words} on ${most.target.name}, in ${page.kib(most.needs.at(-1))} of SRAM.`;
  }

  draw();
};

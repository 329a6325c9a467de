// What the scripts of a page share: elements, colours, numbers, the tip, and who draws which chart.
const page = {
  charts: {},

  // An element with attributes and children; strings are text and never markup.
  make(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  },

  svg(tag, attributes = {}, ...children) {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  },

  // What a colour of the style sheet is in the theme of this moment, for canvases.
  colour(name) {
    page.probe ??= document.body.appendChild(page.make('span', { hidden: '' }));
    page.probe.style.color = `var(--${name})`;
    return getComputedStyle(page.probe).color;
  },

  number: (value) => Number(value).toLocaleString('en-US', { maximumFractionDigits: 3 }),
  kib: (bytes) => `${(bytes / 1024).toLocaleString('en-US', { maximumFractionDigits: 1 })} KiB`,

  // Round values between 0 and `most`, about `count` of them, `whole` ones if steps below 1 mean nothing.
  ticks(most, count, base = 10, whole = false) {
    const rough = most / Math.max(count, 1) || 1;
    let step = base ** Math.floor(Math.log(rough) / Math.log(base));
    for (const factor of base === 2 ? [1, 2] : [1, 2, 5, 10]) {
      if (step * factor >= rough) { step *= factor; break; }
    }
    if (whole) step = Math.max(1, Math.round(step));
    return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, index) => index * step);
  },

  legend(entries) {
    return page.make('ul', { class: 'legend' }, ...entries.map(([name, colour]) => {
      const sign = page.make('i');
      sign.style.background = `var(--${colour})`;
      return page.make('li', {}, sign, name);
    }));
  },

  // Lines of text beside the pointer; the first one is the heading.
  showTip(lines, x, y) {
    page.tip ??= document.body.appendChild(page.make('div', { class: 'tip' }));
    const [head, ...rest] = lines;
    page.tip.replaceChildren(page.make('b', {}, head), ...rest.map((line) => page.make('div', {}, line)));
    page.tip.hidden = false;
    const box = page.tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    page.tip.style.left = `${Math.max(4, left)}px`;
    page.tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - box.height - 4))}px`;
  },

  hideTip() {
    if (page.tip) page.tip.hidden = true;
  },

  // A mark of a drawing that tells `lines` to the pointer, to the keyboard and to readers of the screen.
  tells(mark, lines) {
    mark.setAttribute('tabindex', '0');
    mark.setAttribute('role', 'img');
    mark.setAttribute('aria-label', lines.join('; '));
    mark.addEventListener('pointermove', (event) => page.showTip(lines, event.clientX, event.clientY));
    mark.addEventListener('pointerleave', page.hideTip);
    mark.addEventListener('blur', page.hideTip);
    mark.addEventListener('focus', () => {
      const box = mark.getBoundingClientRect();
      page.showTip(lines, box.right, box.top);
    });
    return mark;
  },

  switchTheme() {
    const themes = ['auto', 'light', 'dark'];
    const button = page.make('button', { type: 'button', class: 'switch', title: 'Light or dark' }, 'Theme: auto');
    button.addEventListener('click', () => {
      const root = document.documentElement;
      const next = themes[(themes.indexOf(root.dataset.theme ?? 'auto') + 1) % themes.length];
      if (next === 'auto') delete root.dataset.theme;
      else root.dataset.theme = next;
      button.textContent = `Theme: ${next}`;
      dispatchEvent(new Event('repaint'));
    });
    document.querySelector('header').append(button);
  },

  start() {
    page.switchTheme();
    document.querySelectorAll('figure.grid').forEach(page.makeTable);
    for (const figure of document.querySelectorAll('figure.chart')) {
      const data = JSON.parse(figure.querySelector('script').textContent);
      figure.classList.add('drawn');
      page.charts[figure.dataset.kind](figure.querySelector('.drawing'), data, figure);
    }
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dispatchEvent(new Event('repaint')));
  },
};

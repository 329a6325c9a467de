// Tables that sort by a click on a heading, filter by words, and are saved as CSV.
page.makeTable = (figure) => {
  const body = figure.querySelector('tbody');
  const heads = [...figure.querySelectorAll('th')];
  const rows = [...body.rows].map((row, place) => ({
    row,
    place,
    words: row.textContent.toLowerCase(),
    values: [...row.cells].map(valueOf),
  }));
  let sorted = rows;
  let limit = Number(figure.dataset.open);

  const filter = page.make('input', { type: 'search', placeholder: 'Filter rows', 'aria-label': 'Filter rows' });
  const status = page.make('span', { role: 'status' });
  const more = page.make('button', { type: 'button', class: 'more' }, 'Show all');
  const save = page.make('button', { type: 'button', class: 'csv' }, 'Save CSV');
  figure.querySelector('figcaption').after(page.make('div', { class: 'tools' }, filter, status, more, save));

  function chosen() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    return sorted.filter((entry) => words.every((word) => entry.words.includes(word)));
  }

  function show() {
    const found = chosen();
    const shown = found.slice(0, limit);
    body.replaceChildren(...shown.map((entry) => entry.row));
    more.hidden = shown.length === found.length;
    const all = `${page.number(rows.length)} row${rows.length === 1 ? '' : 's'}`;
    status.textContent = found.length === rows.length ? all : `${page.number(found.length)} of ${all}`;
  }

  heads.forEach((head, column) => {
    const button = page.make('button', { type: 'button' }, head.textContent);
    head.replaceChildren(button);
    head.setAttribute('aria-sort', 'none');
    // Who looks for the most wants numbers from the top, and names from A.
    const first = head.classList.contains('text') ? 'ascending' : 'descending';
    const other = first === 'ascending' ? 'descending' : 'ascending';
    button.addEventListener('click', () => {
      const order = head.getAttribute('aria-sort') === first ? other : first;
      heads.forEach((one) => one.setAttribute('aria-sort', 'none'));
      head.setAttribute('aria-sort', order);
      const sign = order === 'ascending' ? 1 : -1;
      sorted = [...rows].sort((a, b) => compare(a.values[column], b.values[column], sign) || a.place - b.place);
      show();
    });
  });
  filter.addEventListener('input', show);
  more.addEventListener('click', () => { limit = Infinity; show(); });
  save.addEventListener('click', () => {
    const lines = [heads.map((head) => head.dataset.key), ...chosen().map((entry) => entry.values)];
    const text = lines.map((line) => line.map(field).join(',')).join('\r\n') + '\r\n';
    const address = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
    page.make('a', { href: address, download: `${figure.id}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });
  // Paper has no button to show the rest.
  addEventListener('beforeprint', () => { body.replaceChildren(...chosen().map((entry) => entry.row)); });
  addEventListener('afterprint', show);
  show();

  function valueOf(cell) {
    if ('none' in cell.dataset) return null;
    return 'value' in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
  }

  // What there is not comes last in both orders; numbers before texts.
  function compare(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
    if (typeof a === 'number') return sign * (a - b);
    return sign * a.localeCompare(b, 'en', { numeric: true });
  }

  // A spreadsheet would run a text that begins like a formula.
  function field(value) {
    if (value === null) return '';
    if (typeof value === 'number') return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }
};

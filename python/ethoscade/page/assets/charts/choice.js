// One chart of several, by a list: { label, kind, options: [{name, data}], first } of which `first` is shown at first.
page.charts.choice = (drawing, data) => {
  const list = page.make('select', { 'aria-label': data.label });
  data.options.forEach((option, index) => list.append(page.make('option', { value: index }, option.name)));
  list.value = data.first;
  const shown = page.make('div', { class: 'drawing' });
  drawing.append(page.make('div', { class: 'tools' }, `${data.label} `, list), shown);

  function draw() {
    const fresh = page.make('div');
    shown.replaceChildren(fresh);
    page.charts[data.kind](fresh, data.options[list.value].data);
  }

  list.addEventListener('change', draw);
  draw();
};

// Draws every chart from the JSON behind it, and switches rows and seeds on and off.
// Nothing on the page leads to another machine.
const CONFIG = {responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: ""};

for (const chart of document.querySelectorAll(".chart")) {
  const figure = JSON.parse(chart.nextElementSibling.textContent);
  Plotly.newPlot(chart, figure.data, figure.layout, CONFIG);
}

function shown(section) {
  const on = new Map();
  for (const box of section.querySelectorAll("input[data-seed]")) {
    if (!on.has(box.dataset.row)) on.set(box.dataset.row, new Set());
    if (box.checked) on.get(box.dataset.row).add(Number(box.dataset.seed));
  }
  // A trace of a whole row is shown while one of its seeds is.
  return meta => !meta || !meta.row || (meta.seed === null ? on.get(meta.row).size > 0 : on.get(meta.row).has(meta.seed));
}

function update(section) {
  const visible = shown(section);
  for (const chart of section.querySelectorAll(".chart")) {
    Plotly.restyle(chart, {visible: chart.data.map(trace => visible(trace.meta) ? true : "legendonly")});
  }
}

for (const section of document.querySelectorAll(".grid")) {
  const boxes = row => [...section.querySelectorAll("input[data-seed]")].filter(box => box.dataset.row === row);
  section.addEventListener("change", event => {
    const {row, seed} = event.target.dataset;
    if (seed === undefined) {
      for (const box of boxes(row)) box.checked = event.target.checked;
    } else {
      const whole = [...section.querySelectorAll("input:not([data-seed])")].find(box => box.dataset.row === row);
      whole.checked = boxes(row).some(box => box.checked);
    }
    update(section);
  });
}

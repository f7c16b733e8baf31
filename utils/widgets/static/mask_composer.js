// Draws chapter 4's figure, on the heat map of heat_map.js. Every number and every
// reason comes from Python (utils/widgets/mask_composer.py); this file sends back
// the switches, the window's width and the chosen cell.

const INVITATION = "Choose a cell with a click, a tap or the arrow keys; hover to read one.";

const toggle = ([name, words]) => `<label class="afp-switch">
  <input ${OWN_KEYS} type="checkbox" role="switch" name="${name}">${words}</label>`;

const widthSlider = (widest) => `<div class="afp-control">
  <label>Keys in the window <input ${OWN_KEYS} type="range" name="width" min="1" max="${widest}" step="1"></label>
  <span class="afp-number" data-part="width"></span></div>`;

function skeleton({ switches, captions, widest, texts }) {
  return `<div class="afp-figure afp-composer" role="group" aria-label="Mask composer">
    <div class="afp-switches">
      ${Object.entries(switches).map((it) => toggle(it) + (it[0] === "window" ? widthSlider(widest) : "")).join("")}
    </div>
    <div class="afp-columns">
      <div>
        <p class="afp-title" data-part="title"></p>
        <div class="afp-map" data-part="map"></div>
        <p class="afp-legend"><span>0</span><span class="afp-scale"></span><span>1</span>
          <span class="afp-mark"></span><span>may not be read, weight 0</span></p>
        <p class="afp-legend">${texts}</p>
        <p class="afp-hint" data-part="hint">${INVITATION}</p>
      </div>
      <div>
        <p class="afp-title" data-part="pair"></p>
        <p><strong data-part="verdict"></strong></p>
        <table class="afp-vectors afp-reasons" data-part="reasons"></table>
        <dl class="afp-facts" data-part="facts"></dl>
        <p class="afp-title">The row's budget</p>
        <div class="afp-budget" data-part="budget" aria-hidden="true"></div>
        <p class="afp-rows" data-part="total"></p>
        <p class="afp-rows" data-part="empties"></p>
      </div>
    </div>
    <p class="afp-summary" data-part="summary" aria-live="polite"></p>
    <div class="afp-columns">
      ${Object.entries(captions).map(([name, it]) => `<p><strong>${name}</strong> ${it}</p>`).join("")}
    </div>
  </div>`;
}

// ---- the parts: each returns the inside of one element ----

const SIGNS = { off: "–", allows: "✓", forbids: "✗" };

const reasons = ({ constraints }) => constraints.map(([name, says, why]) =>
  `<tr class="afp-${says}"><th scope="row">${name}</th><td>${SIGNS[says]} ${says}</td><td>${why}</td></tr>`)
  .join("");

const facts = ({ facts: pairs }) =>
  pairs.map(([name, it]) => `<div><dt>${name}</dt><dd>${it}</dd></div>`).join("");

// The weights end to end, then what is lost; an empty row spends nothing.
function budget({ words }, { budget: parts, column }) {
  const piece = (value, name, kind) =>
    `<span style="--afp-value: ${value}" class="${kind}">${value < 0.15 ? "" : name}</span>`;
  if (!parts.some((value) => value > 0)) return piece(0, "", "afp-nothing");
  return parts.map((value, j) => j < words.length
    ? piece(value, words[j], j === column ? "afp-chosen" : "")
    : piece(value, "lost", "afp-lost")).join("");
}

// ---- the page around them ----

function draw(part, map, { fixed, table, cell, selected }) {
  const { first } = table;
  const pad = (rows) => [...Array(first), ...rows]; // the tokens that do not ask
  map.update({
    values: pad(table.weights),
    marks: pad(table.forbidden),
    side: pad(table.sums.map((sum, i) => [sum, table.lost[i]])),
    notes: pad(table.empty.map((empty) => (empty ? "empty" : ""))),
    first,
    selected,
    describe: (i, j) => table.labels[i - first][j],
  });
  part("title").textContent = `Weights, ${table.size}. A row is a query, a column a key.`;
  part("pair").textContent = cell.title;
  part("verdict").textContent = cell.verdict;
  part("reasons").innerHTML = reasons(cell);
  part("facts").innerHTML = facts(cell);
  part("budget").innerHTML = budget(fixed, cell);
  part("total").textContent = cell.total;
  part("empties").textContent = table.empties;
}

function render({ model, el }) {
  const fixed = model.get("fixed");
  el.innerHTML = skeleton(fixed);
  const part = (name) => el.querySelector(`[data-part=${name}]`);
  const set = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const map = heatMap(part("map"), {
    label: "Masked attention weights",
    corner: "query \\ key",
    rowLabels: fixed.words,
    columnLabels: fixed.words,
    sideLabels: ["sum", "lost"],
    onSelect: (row, column) => set({ row, column }),
    onHover: (i, j) => {
      const { labels, first } = model.get("table");
      part("hint").textContent = labels[i - first]?.[j] ?? INVITATION;
    },
  });
  const inputs = [...el.querySelectorAll("input")];
  for (const input of inputs) {
    const value = () => (input.type === "range" ? input.valueAsNumber : input.checked);
    input.addEventListener("input", () => set({ [input.name]: value() }));
  }
  const redraw = () => {
    for (const input of inputs) {
      if (input.type === "range") input.value = model.get(input.name);
      else input.checked = model.get(input.name);
    }
    part("width").textContent = model.get("width");
    const [table, cell, row, column] = ["table", "cell", "row", "column"].map((name) => model.get(name));
    draw(part, map, { fixed, table, cell, selected: [row, column] });
  };
  return follow(model, el, [...inputs.map(({ name }) => name), "row", "column", "table", "cell"], redraw);
}

export default { render };

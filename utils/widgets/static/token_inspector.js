// Draws chapter 2's figure, on the heat map of heat_map.js. Every number comes from
// Python (utils/widgets/token_inspector.py); this file sends back the chosen cell
// and the mask. Which of the steps is explained is known here alone.

const button = (step, name) =>
  `<button ${OWN_KEYS} type="button" data-step="${step}">${name}</button>`;

const INVITATION = "Choose a cell with a click, a tap or the arrow keys; hover to read one.";

function skeleton(captions) {
  return `<div class="afp-figure" role="group" aria-label="Token inspector">
    <label class="afp-switch"><input ${OWN_KEYS} type="checkbox" role="switch" name="causal">
      Causal mask: a token reads itself and the tokens before it</label>
    <div class="afp-columns">
      <div>
        <p class="afp-title">Weights: softmax(QKᵀ / √d<sub>k</sub>). A row is a query, a column a key.</p>
        <div class="afp-map" data-part="map"></div>
        <p class="afp-legend"><span>0</span><span class="afp-scale"></span><span>1</span>
          <span class="afp-mark"></span><span>masked: may not be read, weight 0</span></p>
        <p class="afp-hint" data-part="hint">${INVITATION}</p>
        <dl class="afp-facts" data-part="facts"></dl>
      </div>
      <div>
        <p class="afp-title" data-part="budgetTitle"></p>
        <div class="afp-budget" data-part="budget" aria-hidden="true"></div>
        <p class="afp-shares" data-part="shares"></p>
        <p class="afp-title">How the weight comes about</p>
        <table class="afp-vectors" data-part="vectors"></table>
        <ol class="afp-steps" data-part="steps"></ol>
        <p class="afp-controls">${button(-1, "Previous step")}${button(1, "Next step")}</p>
        <p class="afp-why" data-part="why" aria-live="polite"></p>
      </div>
    </div>
    <p class="afp-summary" data-part="summary" aria-live="polite"></p>
    <div class="afp-columns">
      ${Object.entries(captions).map(([name, it]) => `<p><strong>${name}</strong> ${it}</p>`).join("")}
    </div>
  </div>`;
}

// ---- the parts: each returns the inside of one element ----

function facts({ words }, { row, column, score, weight }) {
  const pairs = [["Query (row)", words[row]], ["Key (column)", words[column]],
    ["Raw score (QKᵀ / √d<sub>k</sub>)", score], ["Weight", weight]];
  return pairs.map(([name, it]) => `<div><dt>${name}</dt><dd>${it}</dd></div>`).join("");
}

function vectors({ axes }, { vectors: rows }) {
  const head = axes.map((name) => `<th scope="col">${name}</th>`).join("");
  const body = rows.map(([name, ...numbers]) => `<tr><th scope="row">${name}</th>` +
    `${numbers.map((x) => `<td>${x}</td>`).join("")}</tr>`).join("");
  return `<thead><tr><td></td>${head}</tr></thead><tbody>${body}</tbody>`;
}

const steps = ({ steps: whys }, cell, step) => Object.keys(whys).map((name, i) =>
  `<li${i === step ? ' aria-current="step"' : ""}><div><span>${name}</span> <span>${cell.steps[i]}</span></div></li>`)
  .join("");

function why({ steps: whys }, step) {
  const [name, reason] = Object.entries(whys)[step];
  return `Step ${step + 1} of ${Object.keys(whys).length}, ${name.toLowerCase()}: ${reason}`;
}

// The row's weights end to end. A narrow piece has no room for its word; the list below has.
const budget = ({ words }, { row, column }, { weights }) => weights[row].map((weight, j) =>
  `<span style="--afp-value: ${weight}"${j === column ? ' class="afp-chosen"' : ""}>` +
  `${weight < 0.15 ? "" : words[j]}</span>`).join("");

const shares = ({ words }, { budget: numbers, column, total }) => words.map((word, j) =>
  `<span${j === column ? ' class="afp-chosen"' : ""}>${word} ${numbers[j]}</span>`).join(" + ") +
  ` = <strong>${total}</strong>`;

// ---- the page around them ----

function draw(part, map, { fixed, table, cell, selected }, step) {
  map.update({
    values: table.weights,
    marks: table.forbidden,
    selected,
    describe: (i, j) => table.labels[i][j],
  });
  part("facts").innerHTML = facts(fixed, cell);
  part("budgetTitle").textContent = `The budget of “${fixed.words[cell.row]}”: all its weights`;
  part("budget").innerHTML = budget(fixed, cell, table);
  part("shares").innerHTML = shares(fixed, cell);
  part("vectors").innerHTML = vectors(fixed, cell);
  part("steps").innerHTML = steps(fixed, cell, step);
}

// Which of the steps is explained.
function stepper(el, part, fixed, redraw) {
  let step = 0;
  const buttons = [...el.querySelectorAll("[data-step]")];
  const last = Object.keys(fixed.steps).length - 1;
  const show = () => {
    // Not `disabled`: that would take the focus away.
    buttons.forEach((node, i) => node.setAttribute("aria-disabled", step === [0, last][i]));
    part("why").textContent = why(fixed, step);
  };
  buttons.forEach((node) => node.addEventListener("click", () => {
    step = Math.min(last, Math.max(0, step + Number(node.dataset.step)));
    show();
    redraw();
  }));
  show();
  return () => step;
}

function weightMap(el, model, fixed, hint, set) {
  return heatMap(el, {
    label: "Attention weights",
    corner: "query \\ key",
    rowLabels: fixed.words,
    columnLabels: fixed.words,
    onSelect: (row, column) => set({ row, column }),
    onHover: (i, j) => {
      hint.textContent = i === undefined ? INVITATION : model.get("table").labels[i][j];
    },
  });
}

function render({ model, el }) {
  const fixed = model.get("fixed");
  el.innerHTML = skeleton(fixed.captions);
  const part = (name) => el.querySelector(`[data-part=${name}]`);
  const set = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const map = weightMap(part("map"), model, fixed, part("hint"), set);
  const causal = el.querySelector("[name=causal]");
  causal.addEventListener("change", () => set({ causal: causal.checked }));
  const step = stepper(el, part, fixed, () => redraw());
  const redraw = () => {
    const [table, cell, row, column] = ["table", "cell", "row", "column"].map((name) => model.get(name));
    causal.checked = model.get("causal");
    draw(part, map, { fixed, table, cell, selected: [row, column] }, step());
  };
  return follow(model, el, ["row", "column", "causal", "table", "cell"], redraw);
}

export default { render };

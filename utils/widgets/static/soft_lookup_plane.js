// Draws chapter 1's figure. Every number comes from Python (utils/widgets.py);
// this file sends back the query and the temperature, and which button was pressed.

const fix = (x, digits = 2) => (Math.round(x * 10 ** digits) / 10 ** digits + 0).toFixed(digits);
const pair = (point) => `(${point.map((x) => fix(x)).join(", ")})`;
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));
const place = ({ side, unit }, [x, y]) => [side / 2 + unit * x, side / 2 - unit * y];

// ---- the three drawings: each returns the inside of an <svg> ----

const path = (points, name) => `<path class="${name}" d="M${points.join(" L")} Z"/>`;

function grid({ side }) {
  return `<rect class="afp-line" width="${side}" height="${side}"/>
    <path class="afp-line" d="M0 ${side / 2} H${side} M${side / 2} 0 V${side}"/>`;
}

// A ring, filled by area as far as the point weighs, and its letter outside.
function dots(d, labels, points, weights) {
  return points.map((point, i) => {
    const [x, y] = place(d, point);
    const away = (d.ring + 12) / Math.hypot(...point);
    const radius = Math.max(2, d.ring * Math.sqrt(weights[i]));
    return `<circle class="afp-ring" cx="${x}" cy="${y}" r="${d.ring}"/>
      <circle class="afp-dot" cx="${x}" cy="${y}" r="${radius}"/>
      ${text(x + away * point[0], y - away * point[1] + 5, labels[i])}`;
  }).join("");
}

// The handle lies on the tip, so the head of the arrow ends where the handle begins.
function arrow(d, query) {
  const length = Math.hypot(...query);
  if (length * d.unit < 24) return "";
  const [ux, uy] = [query[0] / length, -query[1] / length];
  const [x, y] = place(d, query).map((c, i) => c - 9 * [ux, uy][i]);
  const [bx, by] = [x - 14 * ux, y - 14 * uy];
  const shaft = (name) => `<path class="${name}" d="M${d.side / 2} ${d.side / 2} L${bx} ${by}"/>`;
  return shaft("afp-halo") + shaft("afp-shaft") +
    path([[x, y], [bx + 6 * uy, by - 6 * ux], [bx - 6 * uy, by + 6 * ux]], "afp-head");
}

function bars(d, labels, scores, weights) {
  const end = d.side - 8;
  const rows = labels.map((label, i) => {
    const y = d.top + d.gap * i;
    const bar = (name, width) =>
      `<rect class="${name}" x="${d.left}" y="${y - 13}" width="${width}" height="18"/>`;
    return text(16, y, label) + text(d.left - 16, y, fix(scores[i]), "end") +
      bar("afp-line", d.full) + bar("afp-dot", d.full * weights[i]) +
      text(end, y, fix(weights[i], 3), "end");
  });
  const total = weights.reduce((sum, w) => sum + w, 0);
  return text(16, d.top - 30, "key") + text(d.left - 16, d.top - 30, "q·k", "end") +
    text(end, d.top - 30, "weight", "end") + rows.join("") +
    text(end, d.top + d.gap * labels.length, `sum ${fix(total, 3)}`, "end");
}

function outputAndTarget(d, out, target) {
  const [[x, y], [tx, ty]] = [place(d, out), place(d, target)];
  return path([[x, y - 9], [x + 9, y], [x, y + 9], [x - 9, y]], "afp-out") +
    ["afp-halo", "afp-target"].map((name) =>
      `<path class="${name}" d="M${tx - 9} ${ty} h18 M${tx} ${ty - 9} v18"/>`).join("");
}

// ---- the page around them ----

const panel = (title, side, inside = "") => `
  <figure class="afp-panel">
    <figcaption>${title}</figcaption>
    <div class="afp-stage"><svg role="img" viewBox="0 0 ${side} ${side}"></svg>${inside}</div>
  </figure>`;

const slider = (name, label, low, high, step) => `
  <div class="afp-control">
    <label><span>${label}</span>
      <input ${OWN_KEYS} type="range" name="${name}" min="${low}" max="${high}" step="${step}"></label>
    <span class="afp-number" data-value="${name}"></span>
  </div>`;

function skeleton({ side, limit, temperatures, press }) {
  const [cold, hot] = temperatures.map(Math.log10);
  return `<div class="afp-figure" role="group" aria-label="Soft look-up">
    <div class="afp-panels">
      ${panel("Keys, and the query (arrow)", side, `<div ${OWN_KEYS} class="afp-handle" role="slider" tabindex="0"
        aria-label="Query" aria-roledescription="two-axis slider"
        aria-valuemin="${-limit}" aria-valuemax="${limit}"></div>`)}
      ${panel("Weights: softmax(q·k / T)", side)}
      ${panel("Values, output (◆), target (+)", side)}
    </div>
    <div class="afp-controls">
      ${slider("x", "Query x", -limit, limit, 0.05)}
      ${slider("y", "Query y", -limit, limit, 0.05)}
      ${slider("temperature", "Temperature T", cold, Math.ceil(100 * hot) / 100, 0.01)}
    </div>
    <div class="afp-controls">
      <button ${OWN_KEYS} type="button" data-press="descend">Descend ${press} steps</button>
      <button ${OWN_KEYS} type="button" data-press="reset">Reset</button>
      <span class="afp-number" data-value="progress"></span>
    </div>
    <p class="afp-summary" aria-live="polite"></p>
  </div>`;
}

function draw(model, el) {
  const get = (name) => model.get(name);
  const [d, labels, weights, query] = ["drawing", "labels", "weights", "query"].map(get);
  const list = (items) => labels.map((label, i) => `${label} ${items[i]}`).join(", ");
  const [keySpace, weightBars, valueSpace] = el.querySelectorAll("svg");

  keySpace.innerHTML = grid(d) + dots(d, labels, get("key_points"), weights) + arrow(d, query);
  weightBars.innerHTML = bars(d, labels, get("scores"), weights);
  valueSpace.innerHTML = grid(d) + path(get("hull").map((p) => place(d, p)), "afp-ring") +
    dots(d, labels, get("value_points"), weights) + outputAndTarget(d, get("out"), get("target"));

  keySpace.setAttribute("aria-label", `Query ${pair(query)}; keys ${list(get("key_points").map(pair))}`);
  weightBars.setAttribute("aria-label", `Weights ${list(weights.map((w) => fix(w, 3)))}`);
  valueSpace.setAttribute("aria-label", `Output ${pair(get("out"))}, target ${pair(get("target"))}; ` +
    `values ${list(get("value_points").map(pair))}`);

  const handle = el.querySelector(".afp-handle");
  const [left, top] = place(d, query).map((c) => `${100 * c / d.side}%`);
  Object.assign(handle.style, { left, top });
  handle.setAttribute("aria-valuenow", query[0]);
  handle.setAttribute("aria-valuetext", `x ${fix(query[0])}, y ${fix(query[1])}`);

  const temperature = get("temperature");
  show(el, "x", query[0], fix(query[0]));
  show(el, "y", query[1], fix(query[1]));
  show(el, "temperature", Math.log10(temperature), fix(temperature));
  el.querySelector("[data-value=progress]").textContent =
    `Loss ${fix(get("loss"), 4)} after ${get("steps")} steps`;
}

function show(el, name, position, words) {
  const input = el.querySelector(`input[name=${name}]`);
  input.value = position;
  input.setAttribute("aria-valuetext", words);
  el.querySelector(`[data-value=${name}]`).textContent = words;
}

// ---- what the reader does ----

function listen(model, el) {
  const { side, unit, limit, temperatures } = model.get("drawing");
  const handle = el.querySelector(".afp-handle");
  const set = (name, value) => { model.set(name, value); model.save_changes(); };
  // Two decimals, so that the numbers shown are the numbers used.
  const move = (x, y) => set("query", [x, y].map((c) => Number(fix(clamp(c, -limit, limit)))));

  handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
  handle.addEventListener("pointermove", (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const box = handle.parentElement.getBoundingClientRect();
    const scale = side / box.width / unit;
    move((event.clientX - box.left - box.width / 2) * scale,
      (box.top + box.height / 2 - event.clientY) * scale);
  });
  handle.addEventListener("keydown", (event) => {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };
    const [x, y] = model.get("query");
    const way = ways[event.key];
    const stride = event.shiftKey ? 0.5 : 0.1;
    if (way) move(x + stride * way[0], y + stride * way[1]);
    else if (event.key === "Home") move(0, 0);
    else return;
    event.preventDefault();
  });
  el.addEventListener("input", ({ target: { name, valueAsNumber: value } }) => {
    const [x, y] = model.get("query");
    if (name === "x") move(value, y);
    else if (name === "y") move(x, value);
    else set("temperature", clamp(Number(fix(10 ** value)), ...temperatures));
  });
  el.addEventListener("click", ({ target }) => {
    const { press } = target.dataset;
    if (press) model.send({ press });
  });
}

function render({ model, el }) {
  el.innerHTML = skeleton(model.get("drawing"));
  listen(model, el);
  return follow(model, el, ["query", "temperature", "weights", "steps"], () => draw(model, el));
}

export default { render };

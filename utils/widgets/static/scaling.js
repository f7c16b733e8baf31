// Draws chapter 3's figure. Every number comes from Python (utils/widgets/scaling.py);
// this file sends back the slider's position and the switch.

// ---- the two drawings: each returns the inside of an <svg> ----

function bars(d, heights, highest) {
  const step = (d.right - d.left) / heights.length;
  const tall = (d.base - d.top) / highest;
  return heights.map((h, i) => `<rect class="afp-dot" x="${d.left + i * step}"
    y="${d.base - h * tall}" width="${step - 1}" height="${h * tall}"/>`).join("") +
    `<path class="afp-ring" d="M${d.left} ${d.base} H${d.right}"/>`;
}

function histogram(d, { shares, limit }) {
  const middle = (d.left + d.right) / 2;
  const unit = (d.right - d.left) / 2 / limit;
  return `<rect class="afp-band" x="${middle - unit}" y="${d.base + 2}" width="${2 * unit}"
    height="6"/>` + bars(d, shares, Math.max(...shares)) +
    text(d.left, d.base + 24, `−${limit}`, "start") + text(middle, d.base + 24, "0") +
    text(d.right, d.base + 24, limit, "end");
}

const row = (d, { weights, ceiling }) =>
  `<path class="afp-line" d="M${d.left} ${d.top} H${d.right}"/>` + bars(d, weights, ceiling) +
  text(d.left, d.base + 24, "key 1", "start") +
  text(d.right, d.base + 24, `key ${weights.length}`, "end") +
  text(d.right, d.top - 10, `top line: weight ${ceiling.toFixed(1)}`, "end");

// ---- the page around them ----

const panel = (title, side) => `
  <figure class="afp-panel"><figcaption>${title}</figcaption>
    <div class="afp-stage"><svg role="img" viewBox="0 0 ${side} ${side - 20}"></svg></div>
  </figure>`;

const skeleton = ({ side, last }) => `
  <div class="afp-figure" role="group" aria-label="Scores and saturation">
    <div class="afp-controls">
      <div class="afp-control">
        <label><span>Width d<sub>k</sub></span>
          <input ${OWN_KEYS} type="range" name="index" min="0" max="${last}" step="1"></label>
        <span class="afp-number" data-part="width"></span>
      </div>
      <label class="afp-switch"><input ${OWN_KEYS} type="checkbox" role="switch" name="scaled">
        <span>Divide the scores by √d<sub>k</sub></span></label>
    </div>
    <div class="afp-panels">
      ${panel("Scores (grey mark: from −1 to 1)", side)}
      ${panel("One row of 64 weights", side)}
    </div>
    <dl class="afp-facts" data-part="facts"></dl>
    <p class="afp-summary" data-part="summary" aria-live="polite"></p>
  </div>`;

function draw(model, el) {
  const [d, state] = ["drawing", "state"].map((name) => model.get(name));
  const [left, right] = el.querySelectorAll("svg");
  left.innerHTML = histogram(d, state);
  right.innerHTML = row(d, state);
  const [spread, , , top] = state.facts;
  left.setAttribute("aria-label", `Histogram of scores: ${spread.join(" ")}`);
  right.setAttribute("aria-label", `One row of weights: ${top.join(" ")}`);
  el.querySelector("[data-part=facts]").innerHTML =
    state.facts.map(([name, number]) => `<div><dt>${name}</dt><dd>${number}</dd></div>`).join("");
  el.querySelector("[data-part=width]").textContent = state.width;
  const slider = el.querySelector("[name=index]");
  slider.value = model.get("index");
  slider.setAttribute("aria-valuetext", `width ${state.width}`);
  el.querySelector("[name=scaled]").checked = model.get("scaled");
}

function render({ model, el }) {
  el.innerHTML = skeleton(model.get("drawing"));
  el.addEventListener("input", ({ target }) => {
    if (target.name === "index") model.set("index", target.valueAsNumber);
    else if (target.name === "scaled") model.set("scaled", target.checked);
    else return;
    model.save_changes();
  });
  return follow(model, el, ["index", "scaled", "state"], () => draw(model, el));
}

export default { render };

// What every figure's script begins with; utils/widgets/figure.py joins the files.

// JupyterLab would take Space, Enter and the arrow keys for the notebook's cells.
const OWN_KEYS = 'data-lm-suppress-shortcuts="true"';

// Words inside an <svg>.
const text = (x, y, words, anchor = "middle") =>
  `<text x="${x}" y="${y}" text-anchor="${anchor}">${words}</text>`;

// Draw now and whenever one of the model's `names` changes: at most once a frame, and
// the summary is spoken once the reader pauses. What is returned ends it.
function follow(model, el, names, redraw) {
  const live = el.querySelector(".afp-summary");
  const speak = () => { live.textContent = model.get("summary"); };
  redraw();
  speak();
  let frame = 0;
  let pause = 0;
  const update = () => {
    cancelAnimationFrame(frame);
    clearTimeout(pause);
    frame = requestAnimationFrame(redraw);
    pause = setTimeout(speak, 600);
  };
  const changes = names.map((name) => `change:${name}`).join(" ");
  model.on(changes, update);
  return () => {
    model.off(changes, update);
    cancelAnimationFrame(frame);
    clearTimeout(pause);
  };
}

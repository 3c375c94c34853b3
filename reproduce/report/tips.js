// Shows a mark's tip where it is pointed at, tapped, or reached with the arrow keys. The tips are in each figure's SVG,
// as titled circles without paint (tips.py); without a script the browser shows the titles by itself, after a while.
const REACH = { mouse: 14, touch: 28 }; // CSS pixels: marks are small, and a finger is less exact than a mouse

const box = document.createElement("div");
box.id = "tip";
box.role = "status";
box.hidden = true;
document.body.append(box);
let shown = null;

function hide() {
  shown?.classList.remove("shown");
  shown = null;
  box.hidden = true;
}

function show(circle) {
  if (circle === shown) return;
  hide();
  shown = circle;
  circle.classList.add("shown");
  box.textContent = circle.dataset.tip;
  box.hidden = false;
  place();
}

// Above the mark where there is room, else below, and never outside the window.
function place() {
  if (!shown) return;
  const mark = shown.getBoundingClientRect();
  const left = (mark.left + mark.right - box.offsetWidth) / 2;
  const top = mark.top - box.offsetHeight - 6;
  box.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${top < 8 ? mark.bottom + 6 : top}px`;
}

// Not the circle under the pointer: marks are close together, and the last one drawn would cover the others.
function nearest(svg, event) {
  let best = null;
  let distance = REACH[event.pointerType] ?? REACH.mouse;
  for (const circle of svg.querySelectorAll(".tip")) {
    const mark = circle.getBoundingClientRect();
    const across = (mark.left + mark.right) / 2 - event.clientX;
    const away = Math.hypot(across, (mark.top + mark.bottom) / 2 - event.clientY);
    if (away < distance) [best, distance] = [circle, away];
  }
  return best;
}

function point(event) {
  const svg = event.target.closest?.("figure svg");
  const circle = svg && nearest(svg, event);
  if (circle) show(circle);
  else hide();
}

function step(event) {
  if (event.key === "Escape") hide();
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const circles = [...event.currentTarget.querySelectorAll(".tip")];
  const circle = circles.at(Math.max(circles.indexOf(shown) + by, -1) % circles.length);
  circle.scrollIntoView({ block: "nearest", inline: "nearest" });
  show(circle);
}

for (const title of document.querySelectorAll("figure .tip > title")) {
  title.parentElement.dataset.tip = title.textContent;
  title.remove(); // or the browser would show a second tip
}
for (const tips of document.querySelectorAll("figure .tips")) {
  const svg = tips.closest("svg");
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", step);
  svg.addEventListener("blur", hide);
}
document.addEventListener("pointermove", point);
document.addEventListener("pointerdown", point);
document.addEventListener("scroll", place, { capture: true, passive: true }); // a figure's own scrolling too
addEventListener("resize", place);

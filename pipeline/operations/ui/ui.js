// The running runs: this part of the page is loaded again every two seconds.

const POLL_MILLISECONDS = 2000;
const live = byId("live");

async function load(address) {
  const response = await fetch(address);
  return {isRight: response.ok, text: await response.text()};
}

function runsIn(root) {
  return [...root.querySelectorAll("[data-run]")].map((node) => node.dataset.run);
}

function showLive(text) {
  const next = new DOMParser().parseFromString(text, "text/html").body;
  const only = live.dataset.only;
  for (const node of only ? next.querySelectorAll(".live") : [])
    if (node.dataset.run !== only) node.remove();
  const before = runsIn(live), after = runsIn(next);
  // A run has ended or started: the whole page is loaded again.
  if (before.join() !== after.join()) return location.reload();
  live.replaceChildren(...next.childNodes);
}

async function poll() {
  // A background tab sends no requests, which would take time from the training.
  if (!document.hidden) await update();
  setTimeout(poll, POLL_MILLISECONDS);
}

async function update() {
  try {
    const {isRight, text} = await load(live.dataset.poll);
    if (isRight) showLive(text);
    if (isRight && runsIn(live).length) await showCurves();
  } catch {
    // The server stopped; it may start again.
  }
}

// The curves of the runs that are ticked.

function chosen() {
  const inputs = document.querySelectorAll("input[name=run]:checked, input[name=run][type=hidden]");
  const fixed = byId("curves")?.dataset.run;
  return fixed ? [fixed] : [...inputs].map((input) => input.value);
}

async function showCurves() {
  const curves = byId("curves");
  if (!curves) return;
  const keys = chosen();
  const query = new URLSearchParams(keys.map((key) => ["run", key]));
  const {isRight, text} = await load("/curves?" + query);
  if (!isRight || keys.join() !== chosen().join()) return;
  const figures = new DOMParser().parseFromString(text, "text/html").body.children;
  const hidden = curves.querySelectorAll("input[type=hidden]");
  curves.replaceChildren(...hidden, ...figures);
}

// The browser's history stores the ticks, for when a run starts and the page reloads.
function restoreTicks() {
  const ticked = history.state?.ticked ?? [];
  for (const input of byId("runs").querySelectorAll("input[name=run]"))
    input.checked = ticked.includes(input.value);
}

function showChoice() {
  const form = byId("runs");
  const count = form.querySelectorAll(":checked").length;
  history.replaceState({ticked: chosen()}, "");
  form.querySelector("button.more").disabled = count < 2;
  byId("chosen").textContent = count === 0 ? "Tick two runs to compare them."
    : count === 1 ? "Tick another run to compare the two." : count + " runs are ticked.";
  byId("curves-of").textContent = count ? "Of the runs that are ticked."
    : "Of the newest runs; tick runs to see theirs.";
}

if (byId("runs")) {
  byId("runs").addEventListener("change", () => {
    showChoice();
    showCurves();
  });
  restoreTicks();
  showChoice();
}
if (byId("curves")) showCurves();
if (live) setTimeout(poll, POLL_MILLISECONDS);

// The comparison.

function startChanged() {
  const search = byId("changed-search");
  if (!search) return;
  const rows = [...document.querySelectorAll("#changed tbody tr")];
  const show = () => {
    const words = search.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLocaleLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      count += !row.hidden;
    }
    byId("changed-count").textContent = count + " of " + counted(rows.length, "row");
  };
  search.form.addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("input", show);
  show();
}

async function showComparison(result) {
  let text;
  try {
    ({text} = await load("/compare/result" + location.search));
  } catch {
    text = "<p id=message>The server cannot be reached; load the page again.</p>";
  }
  const next = new DOMParser().parseFromString(text, "text/html");
  // The response to an error is a whole page.
  const message = next.getElementById("message");
  result.replaceChildren(...(message ? [message] : next.body.childNodes));
  result.removeAttribute("aria-busy");
  startTables(result);
  startChanged();
}

if (byId("result")) showComparison(byId("result"));

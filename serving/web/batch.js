// Predicts the rows of a table, and offers them as CSV.

import {predict, model} from "/page/api.js";
import {byId, make, shorten, showError} from "/page/dom.js";
import {readTable, writeCsv} from "/page/table.js";

const ROWS = 64;  // per request
const CHARACTERS = 200_000;  // per request of several rows
const ATTEMPTS = 5;
const PREVIEW_ROWS = 8;
const PREVIEW_CHARACTERS = 90;
const LONG_CHARACTERS = 24;
const NAMED_LINES = 5;
// Columns that the download has besides the outputs of the model.
const VERSION = "model_version", REASON = "not_predicted";

function* inRequests(rows, columns) {
  let part = [], characters = 0;
  for (const row of rows) {
    const length = columns.reduce((sum, name) => sum + row.values[name].length, 0);
    if (part.length && (part.length === ROWS || characters + length > CHARACTERS)) {
      yield part;
      [part, characters] = [[], 0];
    }
    part.push(row);
    characters += length;
  }
  if (part.length) yield part;
}

/**
 * Predicts with the version of a task, or with the version that replaced it.
 *
 * Repeats the request while the server's queue is full.
 */
async function predictPatiently(texts, task, getTask, options) {
  for (let attempt = 1; ; attempt++) {
    try {
      return {task, predictions: await predict(texts, {...options, version: task.version})};
    } catch (error) {
      if (![404, 503].includes(error.status) || attempt === ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500 * attempt));
      if (error.status === 404) task = await getTask();
    }
  }
}

/** Returns the task, and for each row the columns without any token. */
async function findEmpty(texts, task, getTask, signal) {
  if (!task.canTokenize) return {task, empty: texts.map(() => [])};
  const options = {signal, signature: "tokenize"};
  const tokenized = await predictPatiently(texts, task, getTask, options);
  const empty = tokenized.predictions.map(({column, cut}) =>
    task.columns.filter((_, index) => !column.includes(index) && !cut[index]));
  return {task: tokenized.task, empty};
}

/** Yields the output columns of rows, a list for each request. */
async function* predictParts(rows, task, getTask, signal) {
  const {columns} = task;
  for (const part of inRequests(rows, columns)) {
    const all = part.map(({values}) =>
      Object.fromEntries(columns.map((name) => [name, values[name]])));
    let predictions = [];
    try {
      let empty;
      ({task, empty} = await findEmpty(all, task, getTask, signal));
      part.forEach((row, index) => { row.empty = empty[index]; });
      const texts = all.filter((_, index) => !empty[index].length);
      if (texts.length) {
        const {minProbability} = task;
        ({task, predictions} = await predictPatiently(texts, task, getTask,
          {signal, minProbability}));
      }
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error(`lines ${part[0].line} to ${part.at(-1).line}: ${error.message}`);
    }
    const next = predictions.values();
    yield part.map(({empty}) => empty.length ? {[REASON]: `empty text: ${empty.join(", ")}`}
      : {...task.fields(next.next().value), [VERSION]: task.version});
  }
}

/** Returns the names and the lines of the download. */
function joinOutputs(header, rows, outputs) {
  const last = [VERSION, REASON];
  // The sort is stable: the names of predictions, all at -1, keep their order.
  const added = [...new Set(outputs.flatMap(Object.keys))]
    .sort((a, b) => last.indexOf(a) - last.indexOf(b));
  const taken = [...added, ...last];
  // Columns of an earlier download are replaced; others are kept under another name.
  const isDownload = header.includes(VERSION);
  const kept = header.filter((name) => !(isDownload && taken.includes(name)));
  const lines = outputs.map((output, index) => [
    ...kept.map((name) => rows[index].values[name]),
    ...added.map((name) => output[name] ?? ""),
  ]);
  return {names: [...kept.map((name) => nameInput(name, taken, header)), ...added], lines};
}

/** Returns a name for a column of the input that no other column has, as `predict` does. */
function nameInput(name, taken, header) {
  let free = name;
  while (taken.includes(free) || (free !== name && header.includes(free))) {
    free = `input_${free}`;
  }
  return free;
}

function describeOutputs(rows, outputs, seconds) {
  const count = `${rows.length} ${rows.length === 1 ? "row" : "rows"}`;
  const done = outputs.length < rows.length ? `stopped after ${outputs.length} of ${count}`
    : `${count} in ${seconds.toFixed(1)} s`;
  const versions = [...new Set(outputs.map((output) => output[VERSION]).filter(Boolean))];
  const without = outputs.filter((output) => output.predicted_class === "");
  const empty = rows.slice(0, outputs.length).filter((row) => row.empty.length);
  const lines = empty.slice(0, NAMED_LINES).map(({line}) => line).join(", ") +
    (empty.length > NAMED_LINES ? ", …" : "");
  return [
    done,
    ...(versions.length > 1 ? [`predicted by versions ${versions.join(" and ")}: see ${VERSION}`]
      : []),
    ...(without.length ? [`${without.length} without a class: probability too low`] : []),
    ...(empty.length ? [`${empty.length} not predicted, because a text is empty: ` +
      `${empty.length === 1 ? "line" : "lines"} ${lines}`] : []),
  ].join(" · ");
}

function describeCell(cell) {
  if (typeof cell === "number") {
    return make("td", {}, Number.isInteger(cell) ? String(cell) : cell.toFixed(4));
  }
  const text = typeof cell === "string" ? cell : JSON.stringify(cell ?? "");
  const className = text.length > LONG_CHARACTERS ? "long" : "";
  return make("td", {className}, shorten(text, PREVIEW_CHARACTERS));
}

function showPreview(header, rows) {
  byId("table-preview").replaceChildren(make("table", {},
    make("thead", {}, make("tr", {},
      ...header.map((name) => make("th", {scope: "col"}, name)))),
    make("tbody", {}, ...rows.slice(0, PREVIEW_ROWS).map((row) =>
      make("tr", {}, ...row.map(describeCell))))));
  byId("table-preview").hidden = false;
}

/**
 * Connects the form.
 *
 * @param getTask Resolves to {version, columns, canTokenize, fields, minProbability} of the newest
 *   version: its text columns, whether it has the signature `tokenize`, a function from a
 *   prediction to an object of output columns, and the least probability of the form.
 */
export function connectTable(getTask) {
  const text = byId("table-text"), status = byId("table-status"), progress = byId("table-progress");
  let controller = new AbortController();

  async function run() {
    const task = await getTask();
    const {header, rows} = readTable(text.value, task.columns);
    progress.max = rows.length;
    const start = performance.now();
    const outputs = [];
    try {
      for await (const part of predictParts(rows, task, getTask, controller.signal)) {
        outputs.push(...part);
        progress.value = outputs.length;
      }
    } catch (error) {
      if (error.name !== "AbortError") showError(byId("table-error"), error);
    }
    status.textContent = describeOutputs(rows, outputs, (performance.now() - start) / 1000);
    if (!outputs.length) return;
    const {names, lines} = joinOutputs(header, rows, outputs);
    const link = byId("table-download");
    URL.revokeObjectURL(link.href);
    link.href = URL.createObjectURL(new Blob([writeCsv(names, lines)], {type: "text/csv"}));
    link.download = model + "-predictions.csv";
    link.hidden = false;
    showPreview(names, lines);
  }

  byId("table-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    for (const id of ["table-download", "table-preview"]) byId(id).hidden = true;
    showError(byId("table-error"));
    status.textContent = "";
    progress.value = 0;
    controller = new AbortController();
    const running = [byId("table-cancel"), progress];
    for (const node of running) node.hidden = false;
    byId("table-predict").disabled = true;
    try {
      await run();
    } catch (error) {
      showError(byId("table-error"), error);
    }
    for (const node of running) node.hidden = true;
    byId("table-predict").disabled = false;
  });
  byId("table-cancel").addEventListener("click", () => controller.abort());

  const load = async (file) => {
    if (file) text.value = await file.text();
  };
  byId("table-file").addEventListener("change", (event) => load(event.target.files[0]));
  const section = byId("table");
  section.addEventListener("dragover", (event) => {
    event.preventDefault();
    section.classList.add("dropping");
  });
  section.addEventListener("dragleave", () => section.classList.remove("dropping"));
  section.addEventListener("drop", (event) => {
    section.classList.remove("dropping");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    load(event.dataTransfer.files[0]);
  });
}

// The page: a form for the task's texts, and the model's predictions for them.

import * as api from "/page/api.js";
import {connectTable} from "/page/batch.js";
import {byId, make, percent, shorten, showError} from "/page/dom.js";
import {forgetAll, readHistory, remember} from "/page/history.js";
import {writeRequests} from "/page/snippets.js";
import {leaveOneOut, showTokens, showWords} from "/page/words.js";

const POLL_MILLISECONDS = 2000;
const MAX_BARS = 20;
const CHOICE_CHARACTERS = 200;

let task = null;  // what `showTask` knows of the newest version
let shown = null;  // {row, prediction, tokenized, minProbability} of the prediction on the page
let lastRequest = 0;
let lastPoll = 0;
let shownPoll = 0;  // a response to an earlier poll comes too late
let tab = "Link";

// ---- the model ---------------------------------------------------------------------

function describeVersion(number) {
  // The pipeline's versions are times in milliseconds.
  const time = Number(number) > 1e12 ? new Date(Number(number)) : null;
  const pushed = time ? `, ${time.toISOString().slice(0, 16).replace("T", " ")} UTC` : "";
  return `version ${number}${pushed}`;
}

function showState(versions, error) {
  const serving = versions.find(({state}) => state === "AVAILABLE");
  const failed = versions.find(({status}) => status.error_message);
  const loading = versions.find(({state}) => state === "LOADING");
  byId("state").className = serving ? "ready" : "down";
  byId("state-text").textContent = error ? error.message : [
    serving ? `${describeVersion(serving.version)}, ready` : "no version is loaded",
    ...(loading ? [`version ${loading.version} is loading`] : []),
    ...(failed ? [`version ${failed.version}: ${failed.status.error_message}`] : []),
  ].join(" · ");
  byId("predict").disabled = !serving;
  const isTableRunning = !byId("table-cancel").hidden;
  byId("table-predict").disabled = !serving || isTableRunning;
  return serving;
}

async function refresh(number = ++lastPoll) {
  const versions = await api.readStatus();
  if (number < shownPoll) return;
  shownPoll = number;
  const serving = showState(versions);
  if (serving && serving.version !== (task && task.version)) await showTask(serving.version);
}

async function poll() {
  if ((document.hidden && task) || !api.hasToken()) return;
  const number = ++lastPoll;
  try {
    await refresh(number);
    if (number >= shownPoll) byId("token").hidden = true;
  } catch (error) {
    if (number < shownPoll) return;
    shownPoll = number;
    showState([], error);
    if (error.status === 401) askForToken(new Error("The token is wrong"));
  }
}

function askForToken(error) {
  api.setToken("");
  byId("token").hidden = false;
  byId("state-text").textContent = "no token";
  showError(byId("token-error"), error);
}

async function showTask(version) {
  const metadata = await api.readMetadata();
  const signatures = metadata.signature_def.signature_def;
  const signature = signatures[api.signatureName];
  if (!signature) throw new Error(`the model has no signature ${api.signatureName}`);
  const columns = metadata.text_columns || Object.keys(signature.inputs).sort();
  const types = Object.fromEntries(columns.map((name) => [name, signature.inputs[name].dtype]));
  const isFirst = task === null;
  const hasFields = !isFirst && String(task.columns) === String(columns);
  task = {
    version, columns, types,
    classes: metadata.classes || [],
    separator: metadata.separator,  // of predicted labels in a cell
    range: metadata.label_range,
    hasText: columns.every((name) => types[name] === "DT_STRING"),
    canTokenize: "tokenize" in signatures && Boolean(metadata.text_columns),
    canAbstain: ["class", "class_id", "probabilities"].every((name) => name in signature.outputs),
  };
  byId("least").hidden = !task.canAbstain;
  // A new version with the same columns keeps the fields and the focus.
  if (!hasFields) showFields();
  showChoices("examples", (metadata.examples || []).map((row) => ({row})));
  showHistory();
  byId("table").hidden = !task.hasText;
  byId("table-help").textContent = `Paste a table, or drop a file here. Its header, or the keys ` +
    `of its lines, must have ${columns.join(" and ")}; other columns are kept. Columns are ` +
    "separated by tabs, commas or semicolons.";
  byId("card-link").hidden = !metadata.has_card;
  if (isFirst) readLocation();
  else showRequest();
}

// ---- the form ----------------------------------------------------------------------

const fieldOf = (name) => byId("input-" + name);

function showFields() {
  const kept = Object.fromEntries(task.columns.map((name) => [name, fieldOf(name)?.value || ""]));
  byId("fields").replaceChildren(...task.columns.flatMap((name) => {
    const field = make("textarea", {id: "input-" + name, rows: 3, value: kept[name], dir: "auto"});
    field.addEventListener("input", showRequest);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
    });
    return [make("label", {htmlFor: field.id}, name), field];
  }));
}

function readRow() {
  const row = {};
  for (const name of task.columns) {
    const {value} = fieldOf(name);
    if (task.types[name] === "DT_STRING") {
      row[name] = value;
      continue;
    }
    try {
      row[name] = JSON.parse(value);
    } catch {
      throw new Error(`${name} must be JSON, such as 1.5 or [1, 2]`);
    }
  }
  return row;
}

function fill(row) {
  for (const name of task.columns) {
    const value = row[name] ?? "";
    fieldOf(name).value = typeof value === "string" ? value : JSON.stringify(value);
  }
  showRequest();
}

const isRow = (row) =>
  row !== null && typeof row === "object" && task.columns.every((name) => name in row);

function showChoices(id, choices) {
  const entries = choices.filter(({row}) => isRow(row));
  byId(id).hidden = !entries.length;
  const list = byId(id).querySelector("ul");
  const hadFocus = list.contains(document.activeElement);
  list.replaceChildren(...entries.map(({row, summary}) => {
    const texts = task.columns.map((name) => String(row[name] ?? ""));
    const button = make("button", {type: "button", className: "choice"},
      ...texts.map((text) => make("span", {dir: "auto"}, shorten(text, CHOICE_CHARACTERS) || "(empty)")));
    if (summary) button.append(make("span", {className: "choice-summary"}, summary));
    button.addEventListener("click", () => {
      fill(row);
      run();
    });
    return make("li", {}, button);
  }));
  if (hadFocus) list.querySelector("button")?.focus();
}

const showHistory = () => showChoices("history", readHistory());

// ---- the address -------------------------------------------------------------------

function writeLocation() {
  const values = task.columns.map((name) => [name, fieldOf(name).value]);
  return "#" + new URLSearchParams(values);
}

/** Fills in and predicts the inputs of the address, if it has any. */
function readLocation() {
  const values = new URLSearchParams(location.hash.slice(1));
  if (!task.columns.some((name) => values.has(name))) {
    showRequest();
    return;
  }
  for (const name of task.columns) fieldOf(name).value = values.get(name) ?? "";
  run();
}

// ---- the prediction ----------------------------------------------------------------

const nameOf = (index, classes = task.classes) => classes[index] ?? `class ${index}`;
/** The predicted class, which a threshold may have chosen, or else the most probable one. */
const bestOf = ({class_id: id, probabilities}) =>
  id ?? probabilities.indexOf(Math.max(...probabilities));
const hasNoClass = (prediction) => prediction.class === null;
/** Returns the indices of the predicted labels of a model of several, or else null. */
const labelsOf = ({labels}) => Array.isArray(labels)
  ? labels.flatMap((isSet, index) => isSet ? [index] : []) : null;
const namesOf = (indices, classes = task.classes) =>
  indices.map((index) => nameOf(index, classes));

/** Returns the least probability of the form; 0 if there is none, which the field checks. */
const readLeast = () => task.canAbstain ? Number(byId("least-probability").value) : 0;

function summarize(prediction) {
  const {probabilities, score} = prediction;
  const labels = labelsOf(prediction);
  if (labels) return namesOf(labels).join(", ") || "no label";
  if (Array.isArray(probabilities)) {
    if (hasNoClass(prediction)) return "no class";
    const best = bestOf(prediction);
    return `${nameOf(best)}, ${percent(probabilities[best])}`;
  }
  return typeof score === "number" ? score.toFixed(3) : "";
}

function describeTrack(share) {
  const fill = make("span", {className: "fill"});
  fill.style.width = (100 * Math.min(Math.max(share, 0), 1)).toFixed(2) + "%";
  return make("span", {className: "track"}, fill);
}

function describeBar(name, share, isBest) {
  return make("li", {className: isBest ? "bar best" : "bar"},
    make("span", {className: "bar-name"}, name),
    make("span", {className: "number"}, percent(share)),
    describeTrack(share));
}

function describePrediction(prediction, minProbability) {
  const {probabilities, score} = prediction;
  if (Array.isArray(probabilities)) {
    const labels = labelsOf(prediction);
    const predicted = labels ?? (hasNoClass(prediction) ? [] : [bestOf(prediction)]);
    const order = probabilities.map((_, index) => index)
      .sort((first, second) => probabilities[second] - probabilities[first]);
    const rest = order.length - MAX_BARS;
    return [
      make("p", {className: "verdict"},
        namesOf(predicted).join(", ") || (labels ? "no label" : "no class")),
      ...(hasNoClass(prediction)
        ? [make("p", {className: "note"},
          `The predicted class is less probable than ${minProbability}`)] : []),
      make("ul", {className: "bars"}, ...order.slice(0, MAX_BARS).map((index) =>
        describeBar(nameOf(index), probabilities[index], predicted.includes(index)))),
      ...(rest > 0 ? [make("p", {className: "note"},
        `and ${rest} less likely ${labels ? "labels" : "classes"}`)] : []),
    ];
  }
  if (typeof score === "number") {
    const [low, high] = task.range || [];
    return [
      make("p", {className: "verdict"}, score.toFixed(3)),
      ...(task.range ? [
        describeTrack((score - low) / (high - low)),
        make("p", {className: "note"}, `of ${low} to ${high}`),
      ] : []),
    ];
  }
  return [make("pre", {tabIndex: 0}, JSON.stringify(prediction, null, 2))];
}

async function run() {
  const request = ++lastRequest;
  showError(byId("error"));
  byId("result").setAttribute("aria-busy", "true");
  try {
    const row = readRow();
    const start = performance.now();
    const minProbability = readLeast();
    const [prediction] = await api.predict([row], {minProbability});
    const milliseconds = Math.round(performance.now() - start);
    const [tokenized] = task.canTokenize ? await api.predict([row], {signature: "tokenize"}) : [];
    if (request !== lastRequest) return;  // a newer request was sent
    if (typeof prediction.class === "string" && Array.isArray(prediction.probabilities)) {
      task.classes[bestOf(prediction)] = prediction.class;
    }
    showResult({row, prediction, tokenized, minProbability}, milliseconds);
  } catch (error) {
    if (request === lastRequest) showError(byId("error"), error);
  }
  byId("result").removeAttribute("aria-busy");
}

function showResult(result, milliseconds) {
  shown = result;
  const {row, prediction, tokenized, minProbability} = result;
  const summary = summarize(prediction);
  byId("answer").replaceChildren(...describePrediction(prediction, minProbability),
    make("p", {className: "note"}, `${milliseconds} ms · version ${task.version}`));
  byId("summary").textContent = `${summary || "predicted"}, in ${milliseconds} ms`;
  byId("tokens").hidden = !tokenized;
  if (tokenized) byId("tokens-content").replaceChildren(...showTokens(task.columns, row, tokenized));
  const valued = Array.isArray(prediction.probabilities) || typeof prediction.score === "number";
  byId("words").hidden = !(task.hasText && valued);
  byId("explain").hidden = byId("explain").disabled = false;
  byId("words-content").replaceChildren(make("p", {className: "note"},
    "Predicts the text again without each of its words."));
  history.replaceState(null, "", writeLocation());
  showRequest();
  remember(row, summary);
  showHistory();
  // On a phone the prediction is below the form and the examples.
  const {top, bottom} = byId("answer").getBoundingClientRect();
  if (top < 0 || bottom > innerHeight) byId("result").scrollIntoView();
}

async function explain() {
  const {row, prediction, tokenized} = shown;
  const isScore = typeof prediction.score === "number";
  const best = isScore ? null : bestOf(prediction);
  const unit = isScore ? {name: "", scale: 1, digits: 2} : {name: " points", scale: 100, digits: 1};
  const value = isScore ? "the score" : `the probability of ${nameOf(best)}`;
  byId("explain").disabled = true;
  try {
    const words = await leaveOneOut(task.columns, row, tokenized,
      (other) => isScore ? other.score : other.probabilities[best]);
    if (shown.row !== row) return;
    byId("words-content").replaceChildren(
      ...showWords(task.columns, row, words, unit),
      make("p", {className: "note"}, `How much each word adds to ${value}` +
        (isScore ? "" : ", in percentage points") + ": the difference from the same text without the word. Underlined words lower it."));
    byId("words-content").focus();  // the focused button is hidden now
    byId("explain").hidden = true;
  } catch (error) {
    if (shown.row === row) showError(byId("error"), error);
  } finally {
    if (shown.row === row) byId("explain").disabled = false;
  }
}

// ---- the same request for other clients ------------------------------------------------

function showRequest() {
  let requests;
  try {
    const link = location.href.split("#", 1)[0] + writeLocation();
    requests = writeRequests(readRow(), link, task.types, readLeast());
  } catch (error) {
    requests = {Link: error.message};
  }
  const names = Object.keys(requests);
  if (!names.includes(tab)) [tab] = names;
  byId("request-tabs").replaceChildren(...names.map((name) => {
    const button = make("button", {
      type: "button", role: "tab", id: "tab-" + name, tabIndex: name === tab ? 0 : -1,
      "aria-selected": String(name === tab), "aria-controls": "request-code",
    }, name);
    button.addEventListener("click", () => select(name));
    return button;
  }));
  byId("request-code").setAttribute("aria-labelledby", "tab-" + tab);
  byId("request-code").textContent = requests[tab];
}

function select(name) {
  tab = name;
  showRequest();
  byId("tab-" + name).focus();
}

function moveTab(event) {
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!step) return;
  const tabs = [...byId("request-tabs").children];
  const next = (tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length;
  select(tabs[next].textContent);
}

async function copy() {
  const code = byId("request-code");
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {  // the page is not served over HTTPS or on localhost
    getSelection().selectAllChildren(code);
    byId("copied").textContent = "Selected: copy it with the keyboard";
    return;
  }
  byId("copied").textContent = "Copied";
  byId("copy").textContent = "Copied";
  setTimeout(() => byId("copy").textContent = "Copy", 1500);
}

// ---- many rows -----------------------------------------------------------------------

/** Returns names in one cell: a JSON list, if a name contains the separator. */
const joinNames = (names, separator) =>
  names.some((name) => name.includes(separator)) ? JSON.stringify(names) : names.join(separator);

function outputFields(prediction, {classes, separator}) {
  const {probabilities, score} = prediction;
  if (Array.isArray(probabilities)) {
    const labels = labelsOf(prediction);
    const predicted = labels ? {predicted_labels: joinNames(namesOf(labels, classes), separator)}
      : hasNoClass(prediction) ? {predicted_class: ""}
      : {predicted_class: prediction.class ?? nameOf(bestOf(prediction), classes)};
    return {
      ...predicted,
      ...Object.fromEntries(probabilities.map((share, index) =>
        [`probability_${nameOf(index, classes)}`, share])),
    };
  }
  return typeof score === "number" ? {predicted_score: score} : {prediction};
}

async function getTableTask() {
  await refresh();
  const {version, columns, canTokenize} = task;
  const described = task;  // a new version replaces it
  const fields = (prediction) => outputFields(prediction, described);
  return {version, columns, canTokenize, fields, minProbability: readLeast()};
}

// ---- events --------------------------------------------------------------------------

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!byId("predict").disabled) run();
});
byId("least-probability").addEventListener("input", showRequest);
byId("explain").addEventListener("click", explain);
byId("copy").addEventListener("click", copy);
byId("request-tabs").addEventListener("keydown", moveTab);
byId("clear-history").addEventListener("click", () => {
  forgetAll();
  showHistory();
  byId("predict").focus();
});
addEventListener("hashchange", () => task && readLocation());
connectTable(getTableTask);
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.setToken(byId("token-value").value);
  shownPoll = lastPoll + 1;  // polls with the earlier token
  byId("token-value").value = "";
  poll();
});
if (api.needsToken) {
  byId("links").hidden = true;  // a browser sends no token when it follows a link
  askForToken();
}
poll();
setInterval(poll, POLL_MILLISECONDS);

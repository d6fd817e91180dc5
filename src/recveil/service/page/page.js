"use strict";

const $ = id => document.getElementById(id);
const state = {table: null, points: [], margin: 0};
const POLL_MILLISECONDS = 700;

// Every text goes in as text: nothing from a file or an answer is read as HTML.
function make(tag, text, attributes = {}) {
  const node = document.createElement(tag);
  if (text !== undefined && text !== null) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function draw(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function say(text) {
  $("message").textContent = text || "";
  $("message").hidden = !text;
  if (text) $("message").scrollIntoView({block: "nearest"});
}

async function ask(path, options = {}) {
  const answer = await fetch(path, {credentials: "same-origin", ...options});
  if (answer.status === 401) { $("login").hidden = false; $("token").focus(); }
  const isJson = (answer.headers.get("content-type") || "").startsWith("application/json");
  const content = isJson ? await answer.json() : null;
  if (!answer.ok) throw new Error(content && content.error ? content.error : `The service answered ${answer.status}.`);
  return content;
}

async function attempt(button, work) {
  say("");
  if (button) button.disabled = true;
  try { await work(); } catch (error) { say(error.message); $("progress").hidden = true; }
  if (button) button.disabled = false;
}

function format(estimate) {
  const number = value => value === null || value === undefined ? "?" : value.toFixed(3);
  return `${number(estimate.value)} [${number(estimate.low)}, ${number(estimate.high)}]`;
}

function showOverview(table) {
  state.table = table;
  const overview = table.overview;
  const facts = [["Table", table.label]];
  if (overview.n_users) facts.push(["Users", overview.n_users.toLocaleString("en")], ["Dimensions", overview.dimensions]);
  if (overview.id_column) facts.push(["Ids", overview.id_column]);
  if (overview.vector_columns.length) facts.push(["Vectors", shorten(overview.vector_columns)]);
  for (const column of overview.columns) facts.push([column.name, describeColumn(column)]);
  $("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", name), make("dd", String(value))]));
  $("warnings").replaceChildren(...overview.warnings.map(text => make("li", text)));
  say(overview.problem);
  showMapping(table);
  showTargets(overview);
  $("overview").hidden = false;
  $("audit-form").hidden = $("cloak").hidden = Boolean(overview.problem);
  $("mapping").open = Boolean(overview.problem);
  $("overview-title").focus();
}

function shorten(names) {
  return names.length > 4 ? `${names.slice(0, 2).join(", ")}, ..., ${names.at(-1)} (${names.length})` : names.join(", ");
}

function describeColumn(column) {
  const undisclosed = column.undisclosed ? `; ${column.undisclosed.toLocaleString("en")} undisclosed` : "";
  if (column.kind === "number") return `numbers${undisclosed}`;
  const counts = Object.entries(column.counts).map(([label, count]) => `${label} ${count.toLocaleString("en")}`);
  const more = column.n_classes > counts.length ? ", ..." : "";
  return `${column.n_classes} classes: ${counts.join(", ")}${more}${undisclosed}`;
}

function showMapping(table) {
  const names = table.overview.all_columns;
  const chosen = new Set(table.columns.vectors.length ? table.columns.vectors : table.overview.vector_columns);
  const id = table.columns.id || table.overview.id_column;
  const option = (name, selected) => Object.assign(make("option", name, {value: name}), {selected});
  $("id-column").replaceChildren(make("option", "as in the table", {value: ""}), ...names.map(n => option(n, n === id)));
  $("vector-columns").replaceChildren(...names.map(name => option(name, chosen.has(name))));
  $("row-numbers").checked = table.columns.row_numbers;
  $("mapping").hidden = false;
}

async function fillChoices() {
  const methods = await ask("/methods");
  const fill = (id, names, chosen) => $(id).replaceChildren(...names.map(name => Object.assign(make("option", name), {selected: name === chosen})));
  fill("method", methods.defenses, "auto");
  fill("panel", methods.panels, "fast");
}

function showTargets(overview) {
  const rows = overview.columns.map((column, number) => {
    const row = make("div", null, {class: "field check"});
    const box = make("input", null, {type: "checkbox", id: `target-${number}`, value: column.name});
    box.checked = column.kind === "classes" && column.n_classes > 1 && column.n_classes <= 20;
    row.append(box, make("label", column.name, {for: `target-${number}`}));
    return row;
  });
  $("targets").replaceChildren(...rows);
}

function chosenTargets() {
  return [...$("targets").querySelectorAll("input:checked")].map(box => box.value).join(",");
}

async function startJob(kind, options) {
  const form = new FormData();
  for (const [name, value] of Object.entries({table_id: state.table.id, target: chosenTargets(), ...options})) form.set(name, value);
  const job = await ask(`/${kind}`, {method: "POST", body: form});
  $("progress").hidden = false;
  $("status").textContent = `The ${kind} has started.`;
  showJob(await follow(job));
}

async function follow(job) {
  while (job.state === "queued" || job.state === "running") {
    const step = job.progress;
    $("step").textContent = step ? step.label : job.state === "queued" ? "waiting for its turn" : "starting";
    if (step && step.total) { $("bar").max = step.total; $("bar").value = step.done; } else { $("bar").removeAttribute("value"); }
    await new Promise(resolve => setTimeout(resolve, POLL_MILLISECONDS));
    job = await ask(`/jobs/${job.id}`);
  }
  $("status").textContent = `The ${job.kind} is ${job.state}.`;
  $("progress").hidden = true;
  if (job.state === "failed") throw new Error(job.error);
  return job;
}

function showJob(job) {
  const items = Object.entries(job.result.targets).map(([name, target]) => {
    const item = make("li");
    const before = job.findings[name].before;
    item.append(make("span", `${name}: ${target.verdict}`, {class: `verdict ${target.verdict}`}), ". ", target.sentence);
    if (before) item.append(` Advantage ${format(before)} before, ${format(target.headline.advantage)} after.`);
    return item;
  });
  const check = job.result.self_check;
  if (check) items.push(make("li", describeCheck(check)));
  $("verdicts").replaceChildren(...items);
  const report = make("a", "Open the report", {href: `/jobs/${job.id}/report`, target: "_blank", rel: "noopener"});
  const links = [report];
  if (job.kind === "cloak") links.push(" · ", make("a", "Download the defended table", {href: `/jobs/${job.id}/table`, download: "", id: "download"}));
  $("downloads").replaceChildren(...links);
  $("command").textContent = job.command;
  $("report").src = `/jobs/${job.id}/report`;
  $("result").hidden = false;
  if (job.kind === "cloak") addPoints(job);
  $("result-title").focus();
  showHistory();
}

function describeCheck(check) {
  const failed = Object.entries(check.targets).filter(([, target]) => !target.passed).map(([name]) => name);
  return failed.length ? `Do not release: strong attackers still infer ${failed.join(", ")}.` : "The self-check passed.";
}

function addPoints(job) {
  const largest = kind => Math.max(...Object.values(job.findings).map(f => (kind === "before" ? f.before || f.advantage : f.advantage).value || 0));
  const defense = job.result.defense;
  state.margin = job.result.protocol.margin;
  if (!state.points.some(point => point.name === "undefended")) state.points.push({name: "undefended", strength: 0, cost: 0, advantage: largest("before"), kind: "before"});
  state.points.push({name: defense.name, strength: defense.strength, cost: job.cost || 0, advantage: largest("after"), kind: "after"});
  for (const point of job.result.frontier ? job.result.frontier.points : []) {
    if (point.method !== "none") state.points.push({name: point.method, strength: point.strength, cost: point.displacement, advantage: point.advantage, kind: "faint"});
  }
  drawFrontier();
}

function drawFrontier() {
  const chart = $("frontier-chart"), top = Math.max(0.1, ...state.points.map(p => p.advantage)), wide = Math.max(0.1, ...state.points.map(p => p.cost));
  const x = cost => 60 + 390 * cost / wide, y = advantage => 250 - 220 * Math.max(0, advantage) / top;
  const nodes = [draw("line", {x1: 60, x2: 460, y1: 250, y2: 250, class: "axis"}), draw("line", {x1: 60, x2: 60, y1: 20, y2: 250, class: "axis"}),
    draw("line", {x1: 60, x2: 460, y1: y(state.margin), y2: y(state.margin), class: "margin"}),
    draw("text", {x: 60, y: 285}, "cost: how far users move (share of the spread)"), draw("text", {x: 8, y: 14}, "advantage of the strongest attack"),
    draw("text", {x: 28, y: 254}, "0"), draw("text", {x: 20, y: 34}, top.toFixed(2)), draw("text", {x: 430, y: 268}, wide.toFixed(2))];
  const strength = Number($("strength").value), method = $("method").value;
  for (const point of state.points) {
    const near = point.kind === "faint" && point.name === method && Math.abs(point.strength - strength) < 0.13;
    const mark = draw("circle", {cx: x(point.cost), cy: y(point.advantage), r: point.kind === "faint" && !near ? 4 : 7, class: near ? "mark" : point.kind});
    mark.append(draw("title", {}, `${point.name}, strength ${point.strength}`));
    nodes.push(mark);
  }
  chart.replaceChildren(...nodes);
  $("frontier-caption").textContent = "Red: undefended. Green: defended tables of this session. Gray: other defenses, where measured. Dashed: the margin. Left and low is better.";
  const head = make("tr");
  head.append(...["defense", "strength", "cost", "advantage"].map(text => make("th", text, {scope: "col"})));
  const rows = state.points.map(point => {
    const row = make("tr");
    row.append(...[point.name, point.strength, point.cost.toFixed(3), point.advantage.toFixed(3)].map(value => make("td", String(value))));
    return row;
  });
  $("frontier-table").replaceChildren(make("caption", "Points of the frontier"), head, ...rows);
  $("frontier-table").hidden = $("frontier-figure").hidden = false;
}

async function showHistory() {
  const jobs = (await ask("/jobs")).jobs.reverse();
  $("history-empty").hidden = jobs.length > 0;
  const labels = [...new Set(jobs.map(job => job.label))];
  $("history-list").replaceChildren(...labels.map(label => showSeries(label, jobs.filter(job => job.label === label))));
}

function showSeries(label, jobs) {
  const box = make("article"), wide = make("div", null, {class: "wide", tabindex: "0", role: "region", "aria-label": `Jobs of ${label}`});
  box.append(make("h3", label));
  const audits = jobs.filter(job => job.kind === "audit" && job.state === "done");
  for (const target of new Set(audits.flatMap(job => Object.keys(job.findings)))) {
    const values = audits.filter(job => target in job.findings).map(job => job.findings[target].advantage.value || 0);
    if (values.length > 1) box.append(drawTrend(target, values));
  }
  const table = make("table"), head = make("tr");
  head.append(...["time (UTC)", "job", "verdicts", ""].map(text => make("th", text, {scope: "col"})));
  table.append(head, ...jobs.map(showRow).reverse());
  wide.append(table);
  box.append(wide);
  return box;
}

function showRow(job) {
  const row = make("tr"), found = Object.entries(job.findings).map(([name, f]) => `${name}: ${f.verdict}, ${format(f.advantage)}`);
  const cell = make("td");
  if (job.state === "done") {
    const button = make("button", "Show", {type: "button", "aria-label": `Show the ${job.kind} of ${job.created}`});
    button.addEventListener("click", () => attempt(button, async () => showJob(await ask(`/jobs/${job.id}`))));
    cell.append(button);
  }
  row.append(make("td", job.created.slice(0, 19).replace("T", " ")), make("td", job.kind), make("td", found.join("; ") || job.error || job.state), cell);
  return row;
}

function drawTrend(target, values) {
  const top = Math.max(0.1, ...values), x = i => 60 + 380 * i / (values.length - 1), y = value => 90 - 70 * Math.max(0, value) / top;
  const chart = draw("svg", {viewBox: "0 0 480 120", role: "img", "aria-label": `Advantage on ${target} over ${values.length} audits: ${values.map(v => v.toFixed(3)).join(", ")}`});
  chart.append(draw("text", {x: 8, y: 14}, `advantage on ${target}, by audit`), draw("line", {x1: 60, x2: 440, y1: 90, y2: 90, class: "axis"}),
    draw("text", {x: 20, y: 30}, top.toFixed(2)), draw("text", {x: 28, y: 94}, "0"),
    draw("polyline", {points: values.map((value, i) => `${x(i)},${y(value)}`).join(" "), class: "line"}),
    ...values.map((value, i) => draw("circle", {cx: x(i), cy: y(value), r: 4, class: "mark"})));
  return chart;
}

function onSubmit(id, work) {
  $(id).addEventListener("submit", event => { event.preventDefault(); attempt(event.submitter, work); });
}

onSubmit("login-form", async () => {
  await ask("/session", {method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify({token: $("token").value})});
  $("token").value = "";
  $("login").hidden = true;
  await begin();
});

onSubmit("upload-form", async () => {
  const form = new FormData();
  for (const name of ["table", "attributes", "ids"]) {
    const file = $(`${name}-file`).files[0];
    if (file) form.set(name, file);
  }
  $("progress").hidden = false;
  $("step").textContent = "reading the table";
  $("bar").removeAttribute("value");
  state.points = [];
  showOverview(await ask("/tables", {method: "POST", body: form}));
  $("progress").hidden = true;
});

onSubmit("mapping-form", async () => {
  const vectors = [...$("vector-columns").selectedOptions].map(option => option.value);
  const body = {id: $("id-column").value || null, vectors, row_numbers: $("row-numbers").checked};
  showOverview(await ask(`/tables/${state.table.id}/columns`, {method: "PUT", headers: {"content-type": "application/json"}, body: JSON.stringify(body)}));
});

onSubmit("audit-form", () => startJob("audit", {panel: $("panel").value}));
onSubmit("cloak-form", () => startJob("cloak", {method: $("method").value, strength: $("strength").value, frontier: $("frontier").checked}));

for (const id of ["strength", "method"]) $(id).addEventListener("input", () => {
  $("strength-value").textContent = Number($("strength").value).toFixed(2);
  if (state.points.length) drawFrontier();
});

for (const kind of ["dragenter", "dragover"]) $("drop").addEventListener(kind, event => { event.preventDefault(); $("drop").classList.add("over"); });
for (const kind of ["dragleave", "drop"]) $("drop").addEventListener(kind, event => { event.preventDefault(); $("drop").classList.remove("over"); });
$("drop").addEventListener("drop", event => {
  [...event.dataTransfer.files].slice(0, 2).forEach((file, number) => {
    const list = new DataTransfer();
    list.items.add(file);
    $(number ? "attributes-file" : "table-file").files = list.files;
  });
});

async function begin() {
  await fillChoices();
  await showHistory();
}

begin().catch(error => { if ($("login").hidden) say(error.message); });

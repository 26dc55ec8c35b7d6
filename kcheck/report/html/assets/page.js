"use strict";
(() => {
  const data = JSON.parse(document.getElementById("cases").textContent);
  const search = document.getElementById("search");
  const show = document.getElementById("show");
  const count = document.getElementById("count");
  const problems = [...document.querySelectorAll("article")];
  const specs = [...document.querySelectorAll("details.spec")];
  const words = new Map(problems.map((each) => [each, each.textContent.toLowerCase()]));

  function filter() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (text) => wanted.every((word) => text.includes(word));
    let shown = 0;
    for (const each of problems) {
      const kind = show.value === "all" || each.dataset.severity === show.value;
      each.hidden = !(kind && matches(words.get(each)));
      shown += !each.hidden;
    }
    count.textContent = `${shown} of ${problems.length} ${problems.length === 1 ? "problem" : "problems"}`;
    for (const each of specs) {
      const rows = data[Number(each.dataset.spec)];
      const name = each.querySelector("summary").textContent.toLowerCase();
      each.hidden = !(matches(name) || rows.some((row) => matches(`${name} ${row[0]} ${row[2]}`.toLowerCase())));
      if (each.open) fill(each, matches);
    }
  }

  function fill(spec, matches) {
    const name = spec.querySelector("summary").textContent.toLowerCase();
    const body = document.createElement("tbody");
    for (const [id, status, rule, worst, seconds] of data[Number(spec.dataset.spec)]) {
      if (!matches(`${name} ${id} ${rule}`.toLowerCase())) continue;
      const row = body.insertRow();
      row.insertCell().textContent = id;
      const cell = row.insertCell();
      cell.textContent = rule ? `${status}: ${rule}` : status;
      cell.className = status === "passed" ? "passed" : "error";
      for (const number of [worst, seconds]) {
        const cell = row.insertCell();
        cell.textContent = number;
        cell.className = "number";
      }
    }
    spec.querySelector("tbody").replaceWith(body);
  }

  function draw(place) {
    if (place.dataset.drawn) return;
    place.dataset.drawn = "yes";
    const {title, label, x, y} = JSON.parse(place.dataset.chart);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = {stroke: color("--soft"), grid: {stroke: color("--line"), width: 1}, ticks: {show: false}};
    const half = x.length > 1 ? (x[1] - x[0]) / 2 : 0.5;
    new uPlot({
      title, width: 400, height: 180, legend: {show: false}, cursor: {show: false},
      scales: {x: {time: false, range: [x[0] - half, x[x.length - 1] + half]}, y: {range: (u, low, high) => [0, Math.max(high, 1)]}},
      axes: [{...axis, label, labelSize: 16, size: 32}, {...axis, size: 48}],
      series: [{}, {fill: color("--link"), stroke: color("--link"), points: {show: false},
        paths: uPlot.paths.bars({size: [0.9, 100]})}],
    }, [x, y], place);
  }

  async function copy(button) {
    const code = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  for (const each of specs) each.addEventListener("toggle", () => { if (each.open) filter(); });
  search.addEventListener("input", filter);
  show.addEventListener("change", filter);
  document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    if (event.target.matches("button.copy")) copy(event.target);
  });
  const charts = [...document.querySelectorAll(".chart")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, {rootMargin: "400px"});
  for (const each of charts) seen.observe(each);
  addEventListener("beforeprint", () => {
    charts.forEach(draw);
    for (const each of document.querySelectorAll("article details")) each.open = true;
  });
  filter();
})();

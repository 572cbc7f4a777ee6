// The picture on a page: boxes in layers on a canvas, to zoom, pan, search, fold and unfold.
"use strict";

const WIDTH = 200, TEXT = 14, PAD = 7, GAP = 22, LAYER_GAP = 46, FARTHEST = 40, AROUND = 24;

class View {
  constructor(root, fn, fills) {
    Object.assign(this, { root, fn, fills, open: new Set(), found: [], at: -1, picked: -1 });
    this.canvas = root.querySelector("canvas.main");
    this.overview = root.querySelector("canvas.overview");
    this.side = root.querySelector(".told");
    this.mode = root.querySelector("select");
    this.search = root.querySelector("input");
    const ops = fn.ops.length, hasPaths = fn.ops.some((op) => op.path.length);
    this.mode.value = fn.boxes.length > 3 ? "region" : hasPaths ? "module" : ops <= 2000 ? "op" : "region";
    this.listen();
    this.resize();
    this.arrange();
  }

  listen() {
    const on = (name, verb) => (this.root.querySelector(`[data-verb=${name}]`).onclick = verb);
    on("fit", () => this.fit(true));
    on("in", () => this.zoom(1.5, this.canvas.clientWidth / 2, this.canvas.clientHeight / 2));
    on("out", () => this.zoom(1 / 1.5, this.canvas.clientWidth / 2, this.canvas.clientHeight / 2));
    on("fold", () => { this.open.clear(); this.arrange(); });
    on("unfold", () => { this.allIds().forEach((id) => this.open.add(id)); this.arrange(); });
    this.mode.onchange = () => { this.open.clear(); this.arrange(); };
    this.search.oninput = () => this.find();
    this.search.onkeydown = (event) => { if (event.key === "Enter") this.next(); };
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    this.canvas.onpointerdown = (event) => {
      this.drag = [event.clientX, event.clientY, this.x, this.y, false];
      this.canvas.setPointerCapture(event.pointerId);
    };
    this.canvas.onpointermove = (event) => this.move(event);
    this.canvas.onpointerup = (event) => {
      if (this.drag && !this.drag[4]) this.pick(event.offsetX, event.offsetY);
      this.drag = null;
    };
    this.canvas.ondblclick = (event) => this.unfold(this.boxAt(event.offsetX, event.offsetY));
    this.overview.onclick = (event) => {
      const [across, down] = this.overviewScales();
      this.x = this.canvas.clientWidth / 2 - (event.offsetX / across) * this.scale;
      this.y = this.canvas.clientHeight / 2 - (event.offsetY / down) * this.scale;
      this.later();
    };
    new ResizeObserver(() => { this.resize(); this.later(); }).observe(this.canvas);
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    for (const each of [this.canvas, this.overview]) {
      each.width = Math.max(1, each.clientWidth * ratio);
      each.height = Math.max(1, each.clientHeight * ratio);
    }
    this.ratio = ratio;
  }

  // The visible boxes: each op in the outermost folded group that contains it.
  allIds() {
    const ids = new Set();
    this.fn.ops.forEach((op, number) => this.chain(op).forEach((id) => ids.add(id)));
    return ids;
  }

  chain(op) {
    if (this.mode.value === "region") return [`r${op.box}`];
    if (this.mode.value === "module") return op.path.map((_part, depth) => `m${op.path.slice(0, depth + 1).join("/")}`);
    return [];
  }

  groups() {
    const held = new Map();
    this.fn.ops.forEach((op, number) => {
      const id = this.chain(op).find((each) => !this.open.has(each)) ?? `o${number}`;
      if (!held.has(id)) held.set(id, []);
      held.get(id).push(number);
    });
    return [...held].map(([id, ops]) => this.box(id, ops));
  }

  box(id, ops) {
    const op = this.fn.ops[ops[0]], told = this.fn.boxes[op.box];
    if (ops.length === 1) {
      const place = [op.place, told.verdict, told.time].filter((part) => part !== null).join(", ");
      return { id, ops, contested: told.contested, lines: [op.op, op.name, op.made, place], fill: this.fillOf(ops) };
    }
    if (id[0] === "r") return { id, ops, contested: told.contested, lines: [told.title, ...told.lines], fill: this.fillOf(ops) };
    const kinds = new Map(), places = new Map();
    for (const number of ops) {
      const each = this.fn.ops[number];
      kinds.set(each.op, (kinds.get(each.op) ?? 0) + 1);
      places.set(each.target, (places.get(each.target) ?? 0) + 1);
    }
    const most = [...kinds].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, count]) => `${name} x${count}`);
    const where = [...places].map(([name, count]) => `${name}: ${count}`).join(", ");
    return { id, ops, lines: [`${id.slice(1)}: ${ops.length} ops`, where, ...most], fill: this.fillOf(ops) };
  }

  fillOf(ops) {
    const boxes = new Set(ops.map((number) => this.fn.ops[number].box));
    if (boxes.size === 1) {
      const told = this.fn.boxes[[...boxes][0]];
      return told.fill ?? this.fills[told.target];
    }
    const counts = new Map();
    for (const number of ops) {
      const target = this.fn.ops[number].target;
      counts.set(target, (counts.get(target) ?? 0) + 1);
    }
    return this.fills[[...counts].sort((a, b) => b[1] - a[1])[0][0]];
  }

  // Places boxes in layers below their operands. A line that skips layers reserves a column in each of them.
  arrange() {
    const boxes = this.groups(), boxOf = new Int32Array(this.fn.ops.length);
    boxes.forEach((box, index) => {
      box.height = 2 * PAD + TEXT * box.lines.length;
      box.layer = 0; box.w = WIDTH;
      box.ops.forEach((op) => (boxOf[op] = index));
    });
    const joined = new Map();
    for (const [source, target, size] of this.fn.edges) {
      const from = boxOf[source], to = boxOf[target];
      if (from === to) continue;
      const key = from * boxes.length + to;
      const line = joined.get(key) ?? { from, to, values: 0, label: size };
      line.values += 1;
      if (line.values > 1) line.label = `${line.values} values`;
      joined.set(key, line);
    }
    const lines = [...joined.values()].sort((a, b) => a.from - b.from || a.to - b.to);
    // Boxes are ordered by first op. Module groups may read each other; then only forward lines set layers.
    for (const line of lines) if (line.from < line.to) {
      boxes[line.to].layer = Math.max(boxes[line.to].layer, boxes[line.from].layer + 1);
    }
    const layers = [];
    const put = (cell) => ((layers[cell.layer] ??= []).push(cell), cell);
    boxes.forEach((box) => { box.before = []; box.after = []; box.reads = box.feeds = 0; put(box); });
    for (const line of lines) {
      const from = boxes[line.from], to = boxes[line.to], span = to.layer - from.layer;
      line.route = [from];
      line.far = span < 1 || span > FARTHEST;
      for (let layer = from.layer + 1; !line.far && layer < to.layer; layer += 1) {
        line.route.push(put({ layer, w: 12, height: 0, before: [line.route.at(-1)], after: [] }));
      }
      line.route.push(to);
      if (line.far) continue;
      to.before.push(line.route.at(-2));
      from.feeds += 1; to.reads += 1;
      for (let step = 0; step + 1 < line.route.length; step += 1) line.route[step].after.push(line.route[step + 1]);
    }
    let top = GAP;
    this.layers = layers.map((cells) => {
      const height = Math.max(...cells.map((cell) => cell.height));
      cells.forEach((cell) => { cell.y = top; cell.bottom = top + height; });
      const layer = { top, bottom: top + height, cells: cells.filter((cell) => cell.ops), lines: [] };
      top += height + LAYER_GAP;
      return layer;
    });
    this.placeAll(layers);
    let left = Infinity, right = -Infinity;
    for (const cells of layers) for (const cell of cells) {
      left = Math.min(left, cell.x - cell.w / 2); right = Math.max(right, cell.x + cell.w / 2);
    }
    for (const cells of layers) for (const cell of cells) cell.x -= left - GAP;
    Object.assign(this, { boxes, lines, boxOf, wide: right - left + 2 * GAP, high: top });
    this.cutLines();
    this.drawnOverview = null;
    this.fit(false);
  }

  // A pass down orders each layer; passes up and down again align lines vertically. Each pass moves a cell by its
  // neighbours alone, so that a small slant in each of a thousand blocks adds up: `straighten` takes it out.
  placeAll(layers) {
    for (const cells of layers) {
      cells.forEach((cell, index) => { cell.wish = middle(cell.before, 0); cell.order = index; });
      cells.sort((a, b) => a.wish - b.wish || a.order - b.order);
      this.placeLayer(cells);
    }
    for (const around of ["after", "before", "after"]) {
      for (const cells of around === "after" ? [...layers].reverse() : layers) {
        cells.forEach((cell) => { cell.wish = middle(cell[around], cell.x); });
        this.placeLayer(cells);
      }
    }
    straighten(layers);
  }

  // Places each cell as close to its wanted position as its neighbours allow, without reordering.
  placeLayer(cells) {
    // A run of touching cells is placed at the weighted least-squares fit of their wanted positions:
    // `sum` is weight times the left side that each cell would want for the run. Boxes weigh more than lines.
    const runs = [];
    for (const cell of cells) {
      const weight = cell.ops ? 8 : 1;
      let run = { cells: [cell], width: cell.w + GAP, weight, sum: weight * (cell.wish - (cell.w + GAP) / 2) };
      while (runs.length && runs.at(-1).sum / runs.at(-1).weight + runs.at(-1).width > run.sum / run.weight) {
        const last = runs.pop();
        run = { cells: last.cells.concat(run.cells), width: last.width + run.width, weight: last.weight + run.weight,
                sum: last.sum + run.sum - run.weight * last.width };
      }
      runs.push(run);
    }
    for (const run of runs) {
      let x = run.sum / run.weight;
      for (const cell of run.cells) { cell.x = x + (cell.w + GAP) / 2; x += cell.w + GAP; }
    }
  }

  // Splits lines into segments by the layer that they leave, so that a view draws only visible ones.
  cutLines() {
    for (const line of this.lines) {
      if (line.far) continue;
      for (let step = 0; step + 1 < line.route.length; step += 1) {
        const from = line.route[step], to = line.route[step + 1];
        this.layers[from.layer].lines.push({ from, to, line, last: step + 2 === line.route.length });
      }
    }
  }

  fit(whole) {
    const wide = this.canvas.clientWidth, high = this.canvas.clientHeight;
    const full = Math.min(wide / this.wide, high / this.high);
    this.scale = Math.min(1.6, whole ? full : Math.max(full, Math.min(wide / this.wide, 1), 0.35));
    this.x = (wide - this.wide * this.scale) / 2;
    // A picture wider than the view starts centred on its first box.
    if (this.x < 0 && this.boxes.length) this.x = wide / 2 - this.boxes[0].x * this.scale;
    this.y = Math.max(0, (high - this.high * this.scale) / 2);
    this.later();
  }

  zoom(factor, x, y) {
    const least = Math.min(0.05, this.canvas.clientHeight / this.high, this.canvas.clientWidth / this.wide);
    const scale = Math.min(4, Math.max(least, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.later();
  }

  move(event) {
    if (!this.drag) return;
    const [x, y, left, top] = this.drag;
    if (Math.hypot(event.clientX - x, event.clientY - y) > 3) this.drag[4] = true;
    this.x = left + event.clientX - x;
    this.y = top + event.clientY - y;
    this.later();
  }

  boxAt(x, y) {
    const at = (x - this.x) / this.scale, down = (y - this.y) / this.scale;
    return this.boxes.find((box) => Math.abs(box.x - at) < WIDTH / 2 && box.y <= down && down <= box.y + box.height);
  }

  pick(x, y) {
    const box = this.boxAt(x, y);
    this.picked = box ? box.ops[0] : -1;
    this.side.textContent = box ? this.told(box) : "";
    this.later();
  }

  told(box) {
    if (box.ops.length > 1) return `${box.lines.join("\n")}\n\nDouble-click to unfold.`;
    const op = this.fn.ops[box.ops[0]];
    return [op.name, op.op, op.types, op.work, op.place, op.why].filter(Boolean).join("\n");
  }

  unfold(box) {
    if (!box || box.ops.length < 2) return;
    this.open.add(box.id);
    this.arrange();
    this.show(box.ops[0]);
  }

  show(number) {
    this.chain(this.fn.ops[number]).forEach((id) => this.open.add(id));
    if (this.boxes[this.boxOf[number]].ops.length > 1) this.arrange();
    const box = this.boxes[this.boxOf[number]];
    this.scale = Math.max(this.scale, 0.8);
    this.x = this.canvas.clientWidth / 2 - box.x * this.scale;
    this.y = this.canvas.clientHeight / 3 - box.y * this.scale;
    this.later();
  }

  find() {
    const words = this.search.value.trim().toLowerCase();
    this.found = [];
    this.at = -1;
    this.fn.ops.forEach((op, number) => {
      if (words && `${op.name}\n${op.op}\n${op.place}\n${op.why}`.toLowerCase().includes(words)) this.found.push(number);
    });
    this.side.textContent = words ? `${this.found.length} found; Enter shows the next` : "";
    this.hits = new Set(this.found);
    this.later();
  }

  next() {
    if (!this.found.length) return;
    this.at = (this.at + 1) % this.found.length;
    this.picked = this.found[this.at];
    this.show(this.picked);
    this.side.textContent = `${this.at + 1} of ${this.found.length}\n${this.told(this.boxes[this.boxOf[this.picked]])}`;
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const start = performance.now(), pen = this.canvas.getContext("2d"), scale = this.scale;
    const wide = this.canvas.clientWidth, high = this.canvas.clientHeight;
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.setTransform(this.ratio * scale, 0, 0, this.ratio * scale, this.ratio * this.x, this.ratio * this.y);
    const top = -this.y / scale, bottom = (high - this.y) / scale, left = -this.x / scale, right = (wide - this.x) / scale;
    const first = Math.max(0, this.layerAt(top) - 1), last = this.layerAt(bottom);
    const shown = this.layers.slice(first, last + 1);
    if (scale > 0.04) this.drawLines(pen, shown, scale);
    for (const layer of shown) for (const box of layer.cells) {
      if (box.x + WIDTH / 2 >= left && box.x - WIDTH / 2 <= right) this.drawBox(pen, box, scale);
    }
    if (scale > 0.4) this.drawLabels(pen, shown);
    this.drawOverview();
    this.canvas.dataset.milliseconds = (performance.now() - start).toFixed(1);
  }

  layerAt(y) {
    let low = 0, high = this.layers.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.layers[middle].bottom + LAYER_GAP < y) low = middle + 1; else high = middle;
    }
    return low;
  }

  drawLines(pen, layers, scale) {
    pen.strokeStyle = pen.fillStyle = "#777";
    pen.lineWidth = Math.max(1.2, 0.5 / scale);
    pen.beginPath();
    for (const layer of layers) for (const { from, to } of layer.lines) {
      const start = from.ops ? from.y + from.height : from.y, half = (from.bottom + to.y) / 2;
      pen.moveTo(from.x, start);
      pen.lineTo(from.x, from.bottom);
      if (scale > 0.15) pen.bezierCurveTo(from.x, half, to.x, half, to.x, to.y); else pen.lineTo(to.x, to.y);
    }
    pen.stroke();
    if (scale < 0.25) return;
    pen.beginPath();
    for (const layer of layers) for (const { to, last } of layer.lines) if (last) {
      pen.moveTo(to.x, to.y); pen.lineTo(to.x - 4, to.y - 8); pen.lineTo(to.x + 4, to.y - 8); pen.closePath();
    }
    pen.fill();
  }

  drawLabels(pen, layers) {
    pen.font = "11px sans-serif"; pen.textAlign = "center";
    pen.strokeStyle = "#fff"; pen.lineWidth = 4; pen.fillStyle = "#111";
    for (const layer of layers) for (const { from, to, line, last } of layer.lines) if (last) {
      // Put the label near the end where fewer lines meet.
      const near = line.route[0].feeds < to.reads ? 0.1 : 0.9;
      const x = from.x + near * (to.x - from.x), y = near < 0.5 ? from.bottom + 14 : to.y - 14;
      pen.strokeText(line.label, x, y); pen.fillText(line.label, x, y);
    }
    pen.textAlign = "left";
  }

  drawBox(pen, box, scale) {
    const left = box.x - WIDTH / 2, hit = this.hits && this.hits.size && box.ops.some((op) => this.hits.has(op));
    pen.fillStyle = box.fill;
    pen.fillRect(left, box.y, WIDTH, box.height);
    const picked = box.ops.includes(this.picked);
    if (hit || picked) {
      pen.strokeStyle = picked ? "#000" : "#c00"; pen.lineWidth = Math.max(3, 2 / scale);
      pen.strokeRect(left, box.y, WIDTH, box.height);
    } else if (scale > 0.15) {
      pen.strokeStyle = box.contested ? "#c00" : "#555"; pen.lineWidth = box.contested ? 2 : 1;
      pen.setLineDash(box.contested ? [6, 3] : []);
      pen.strokeRect(left, box.y, WIDTH, box.height);
      pen.setLineDash([]);
    }
    if (scale < 0.3) return;
    pen.fillStyle = "#111";
    box.lines.forEach((line, index) => {
      pen.font = `${index ? "" : "bold "}12px sans-serif`;
      pen.fillText(fitting(pen, line), left + PAD, box.y + PAD + TEXT * (index + 0.8));
    });
  }

  // Pictures can be much higher than wide, or vice versa: the overview is stretched up to eightfold.
  overviewScales() {
    const across = this.overview.clientWidth / this.wide, down = this.overview.clientHeight / this.high;
    return [Math.min(across, 8 * down, 0.3), Math.min(down, 8 * across, 0.3)];
  }

  drawOverview() {
    const pen = this.overview.getContext("2d"), [across, down] = this.overviewScales();
    if (!this.drawnOverview) {
      const kept = this.drawnOverview = document.createElement("canvas");
      kept.width = this.overview.width; kept.height = this.overview.height;
      const fine = kept.getContext("2d");
      fine.scale(this.ratio, this.ratio);
      for (const box of this.boxes) {
        fine.fillStyle = box.fill;
        const size = [Math.max(2, WIDTH * across), Math.max(1, box.height * down)];
        fine.fillRect((box.x - WIDTH / 2) * across, box.y * down, ...size);
      }
    }
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.overview.width, this.overview.height);
    pen.drawImage(this.drawnOverview, 0, 0);
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.strokeStyle = "#c00"; pen.lineWidth = 1.5;
    const x = across / this.scale, y = down / this.scale;
    pen.strokeRect(-this.x * x, -this.y * y, this.canvas.clientWidth * x, this.canvas.clientHeight * y);
  }
}

// Shifts whole layers so that the middle of the boxes, averaged over the layers around, is the same everywhere.
function straighten(layers) {
  const sums = [0];
  for (const cells of layers) {
    const boxes = cells.filter((cell) => cell.ops);
    sums.push(sums.at(-1) + boxes.reduce((sum, box) => sum + box.x, 0) / boxes.length);
  }
  layers.forEach((cells, number) => {
    const first = Math.max(0, number - AROUND), last = Math.min(layers.length, number + AROUND + 1);
    const shift = (sums[last] - sums[first]) / (last - first);
    for (const cell of cells) cell.x -= shift;
  });
}

function middle(cells, otherwise) {
  let sum = 0, weight = 0;
  for (const each of cells) { const counts = each.ops ? 8 : 1; sum += counts * each.x; weight += counts; }
  return weight ? sum / weight : otherwise;
}

// The end of a text that is too long: names are paths, whose end is the most specific.
function fitting(pen, text) {
  const room = WIDTH - 2 * PAD;
  if (text.length <= 24 || pen.measureText(text).width <= room) return text;
  let kept = text.slice(-40);
  while (pen.measureText(`\u2026${kept}`).width > room) kept = kept.slice(1);
  return `\u2026${kept}`;
}

const given = JSON.parse(document.getElementById("ar-data").textContent);
window.annotatedRegion = given.functions.map((fn, number) => new View(document.getElementById(`view-${number}`), fn, given.fills));

  // ---- flame graphs ----

  const KINDS = ['native', 'Python', 'kernel', 'C library, interpreter', 'unknown'];
  const KIND_COLORS = [[34, 78, 70], [208, 62, 74], [4, 62, 76], [92, 32, 74], [0, 0, 78]];
  const FLAME_LEAST = 1.5; // pixels: narrower boxes are not drawn
  const SMALL_NAME = 'calls that are too short to be drawn';

  const shade = (text) => [...text].reduce((h, c) => (h * 31 + c.codePointAt(0)) >>> 0, 7) % 11 - 5;

  // The list of numbers as a tree; time in us. `usual` and `by_chance` are those of a difference.
  const flameTree = (graph, names) => {
    const diff = graph.kind === 'slow', each = diff ? 5 : 3, list = graph.nodes, path = [];
    for (let i = 0; i < list.length; i += each) {
      const [name, kind] = list[i + 1] < 0 ? [SMALL_NAME, 4] : names[list[i + 1]];
      const node = { depth: list[i], name, kind, us: list[i + 2], usual: diff ? list[i + 3] : 0,
        by_chance: diff ? list[i + 4] : 0, parent: path[list[i] - 1] || null, calls: [], x: 0 };
      if (node.parent)
        node.parent.calls.push(node);
      path[node.depth] = node;
    }
    const root = path[0];
    const place = (node) => {
      let x = node.x;
      node.calls.sort((a, b) => b.us - a.us);
      for (const call of node.calls) {
        call.x = x;
        x += call.us;
        place(call);
      }
    };
    if (root)
      place(root);
    return root;
  };

  const flameColor = (node, root, diff) => {
    if (!diff) {
      const [hue, saturation, light] = KIND_COLORS[node.kind];
      return `hsl(${hue + shade(node.name)} ${saturation}% ${light + shade(node.name) / 2}%)`;
    }
    const more = node.us - node.usual;
    if (Math.abs(more) <= 2 * node.by_chance || more === 0)
      return 'hsl(0 0% 82%)';
    const part = Math.min(1, Math.abs(more) / (Math.abs(root.us - root.usual) || 1));
    return `hsl(${more > 0 ? 8 : 214} 78% ${86 - 26 * part}%)`;
  };

  const flameTold = (node, root, diff, steps) => {
    const self = node.us - node.calls.reduce((sum, c) => sum + c.us, 0);
    if (!diff)
      return `${node.name}: ${duration(node.us)}, ${percent(node.us, root.us)}${self > 0.5 && node.calls.length
        ? `; in itself ${duration(self)}, ${percent(self, root.us)}` : ''}`;
    const more = node.us - node.usual;
    return `${node.name}: ${duration(node.us / steps)} per slow step, ${duration(node.usual / steps)} in typical ones: ${
      duration(Math.abs(more) / steps)} ${more < 0 ? 'less' : 'more'}${
      node.by_chance ? ` ± ${duration(node.by_chance / steps)}` : ''}`;
  };

  const graphLabel = (g) => {
    const phase = g.phase || 'outside of steps';
    if (g.kind === 'slow')
      return `${phase}: slow steps, ${g.state}`;
    return `${phase}: ${g.kind === 'wait' ? `waits, ${g.state}` : g.state ? `samples, ${g.state}` : 'all samples'}`;
  };

  const codeName = (f) => (f.line ? `${f.function.slice(0, -1)}:${f.line})` : f.function);

  const codeRows = (code, diff) => {
    const rows = code.functions.slice(0, 12);
    if (diff) {
      const shown = rows.filter((f, i) => (i === 0 && code.clear) || f.held_us > 2 * f.deviation_us);
      return table(['', 'more', 'by chance', 'in itself'], shown.map((f) => [codeName(f), duration(f.total_us),
        f.deviation_us ? `± ${duration(f.deviation_us)}` : '', duration(f.held_us)]));
    }
    const own = (f) => (code.kind === 'wait' ? f.held_us : f.self_us);
    const woken = rows.some((f) => f.woken_by);
    const waker = (f) => (f.woken_by ? `${[f.woken_by.function, f.woken_by.thread].filter((t) => t).join(' of ')}: ${
      percent(Math.min(f.woken_by.total_us, f.held_us), f.held_us)}` : '');
    return table(['', code.kind === 'wait' ? 'share' : 'self', '', code.kind === 'wait' ? 'time' : 'total'].concat(
      woken ? ['woken by'] : []), rows.map((f) => [codeName(f), percent(own(f), code.total_us),
      bar(own(f) / code.total_us, 'var(--accent)'), code.kind === 'wait' ? duration(f.held_us) : percent(f.total_us, code.total_us)]
      .concat(woken ? [waker(f)] : [])));
  };

  // graphs: of one kind; codes: the tables that go with them.
  const flameCard = (title, note, names, graphs, codes) => {
    const diff = graphs[0].kind === 'slow';
    const height = window.matchMedia('(pointer: coarse)').matches ? 26 : 20;
    const box = make('div', { class: 'flame', tabindex: 0, role: 'group', 'aria-label': `${title}: arrows, Enter, Escape` });
    const told = make('div', { class: 'told small', 'aria-live': 'polite' });
    const search = make('input', { type: 'search', placeholder: 'search functions', 'aria-label': `search in: ${title}` });
    const found = make('span', { class: 'muted small' });
    const choice = make('select', { 'aria-label': `which: ${title}` }, ...graphs.map((g, i) => make('option', { value: i }, graphLabel(g))));
    const all = make('button', { type: 'button', 'aria-label': 'show all' }, 'all');
    const rows = make('div', {}), head = make('div', { class: 'small' });
    let graph = graphs[0], root = null, top = null, chosen = null, width = 0;

    const matches = (node) => {
      const text = search.value.trim().toLowerCase();
      return text !== '' && node.name.toLowerCase().includes(text);
    };
    const tell = () => {
      told.textContent = chosen ? flameTold(chosen, root, diff, graph.steps) : '';
    };
    const draw = () => {
      const boxes = [], left = top.x, scale = top.us ? width / top.us : 0;
      const add = (node, x, w) => {
        const b = make('div', { class: `${matches(node) ? 'hit' : ''}${node === chosen ? ' chosen' : ''}${node.depth < top.depth ? ' above' : ''}`,
          title: flameTold(node, root, diff, graph.steps),
          style: { left: `${x}px`, width: `${Math.max(1, w - 1)}px`, top: `${node.depth * height}px`, height: `${height - 1}px`,
            'line-height': `${height - 1}px`, background: flameColor(node, root, diff) } }, w > 24 ? node.name : '');
        b.node = node;
        boxes.push(b);
      };
      let deepest = 0;
      const visit = (node) => {
        const w = node.us * scale;
        if (w < FLAME_LEAST)
          return;
        deepest = Math.max(deepest, node.depth);
        add(node, (node.x - left) * scale, w);
        node.calls.forEach(visit);
      };
      for (let node = top.parent; node; node = node.parent)
        add(node, 0, width);
      visit(top);
      box.classList.toggle('searched', search.value.trim() !== '');
      const inner = make('div', { style: { height: `${(deepest + 1) * height}px`, position: 'relative' } }, ...boxes);
      box.replaceChildren(inner);
    };
    const count_ = () => {
      const sum = (node) => (matches(node) ? node.us : node.calls.reduce((s, c) => s + sum(c), 0));
      found.textContent = search.value.trim() && root ? `${percent(sum(root), root.us)} of the time` : '';
    };
    const zoom = (node) => {
      top = chosen = node;
      tell();
      draw();
    };
    const pick = (i) => {
      graph = graphs[i];
      root = flameTree(graph, names);
      top = root;
      chosen = null;
      rows.replaceChildren(codes[i] && codes[i].functions.length ? codeRows(codes[i], diff) : '');
      head.textContent = diff ? `${count(graph.steps)} slow steps took ${duration(codes[i].excess_us)} more in ${graph.state}.${
        codes[i].samples ? ` ${count(codes[i].samples)} samples, usually ${codes[i].usual_samples.toFixed(1)}.` : ''}${
        codes[i].clear ? '' : codes[i].samples ? ' These samples do not show that one function holds most of it.' : ' No function holds most of it.'}`
        : `${count(graph.count)} ${graph.kind === 'wait' ? 'waits' : 'samples'}, ${duration(root.us)}`;
      tell();
      count_();
      if (width)
        draw();
    };
    const beside = (node, by) => {
      const list = node.parent ? node.parent.calls : [node];
      return list[list.indexOf(node) + by] || node;
    };
    const keys = { ArrowUp: () => chosen.parent || chosen, ArrowDown: () => chosen.calls[0] || chosen,
      ArrowLeft: () => beside(chosen, -1), ArrowRight: () => beside(chosen, 1), Escape: () => null, Enter: () => chosen };
    box.addEventListener('keydown', (e) => {
      if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey)
        return;
      e.preventDefault();
      chosen = chosen || top;
      const to = keys[e.key]();
      if (e.key === 'Enter' || !to) {
        zoom(to || root);
      } else {
        chosen = to;
        tell();
        draw();
      }
    });
    box.addEventListener('click', (e) => {
      if (e.target.node)
        zoom(e.target.node === top && top.parent ? top.parent : e.target.node);
    });
    choice.addEventListener('change', () => pick(Number(choice.value)));
    search.addEventListener('input', () => { count_(); draw(); });
    all.addEventListener('click', () => { search.value = ''; count_(); zoom(root); });
    pick(0);
    new ResizeObserver(() => {
      const now = Math.round(box.clientWidth);
      if (now && now !== width) {
        width = now;
        draw();
      }
    }).observe(box);
    const names_ = diff ? [['hsl(8 78% 66%)', 'longer in slow steps'], ['hsl(214 78% 66%)', 'shorter'],
      ['hsl(0 0% 82%)', 'no more than samples differ by chance']]
      : KINDS.map((k, i) => [`hsl(${KIND_COLORS[i][0]} ${KIND_COLORS[i][1]}% ${KIND_COLORS[i][2]}%)`, k]);
    return card(title, make('div', { class: 'controls' }, choice, search, all, found), head, rows, box, told,
      make('div', { class: 'legend' }, ...names_.map(([fill, text]) => make('span', {}, make('i', { style: { background: fill } }), text))),
      make('div', { class: 'muted small' }, note));
  };

  const flameCards = (p) => {
    if (!p.flames)
      return [];
    const { names, graphs } = p.flames, list = [];
    // the differences come first, in the order of slow_code
    const slow = graphs.filter((g) => g.kind === 'slow' && g.nodes.length), others = graphs.filter((g) => g.kind !== 'slow');
    if (slow.length)
      list.push(flameCard('Code of slow steps, against typical ones',
        'Widths are the time in slow steps. Choose a function to zoom in, and again to zoom out.', names, slow, p.slow_code));
    if (others.length)
      list.push(flameCard('Code', 'Callers above what they call. Choose a function to zoom in, and again to zoom out.', names, others, p.code));
    return list;
  };

// SPDX-License-Identifier: BSD-2-Clause
//
// For check_page.mjs --eval: zooms the chart of requests of a report's page by keys, wheel, mouse and fingers, and says
// for each whether it then showed a part, and after "0" all again; and whether choosing a request shows its details.
(async () => {
  const box = document.querySelector('.gantt'), card = box.closest('section'), range = card.querySelector('span.muted');
  const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const { left, top, width } = box.getBoundingClientRect();
  const key = (name) => box.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));
  const pointer = (type, x, id = 1, kind = 'mouse', y = 12) => box.dispatchEvent(new PointerEvent(type, {
    clientX: left + x, clientY: top + y, pointerId: id, pointerType: kind, bubbles: true }));
  const gestures = {
    keys: () => key('+'),
    wheel: () => box.dispatchEvent(new WheelEvent('wheel', { deltaY: -200, ctrlKey: true, clientX: left + width / 2, cancelable: true })),
    drag: () => {
      pointer('pointerdown', width * 0.4);
      pointer('pointermove', width * 0.6);
      pointer('pointerup', width * 0.6);
    },
    pinch: () => {
      pointer('pointerdown', width * 0.5, 1, 'touch');
      pointer('pointerdown', width * 0.5 + 30, 2, 'touch');
      pointer('pointermove', width * 0.5 + 90, 2, 'touch');
      pointer('pointerup', width * 0.5 + 90, 2, 'touch');
      pointer('pointerup', width * 0.5, 1, 'touch');
    },
    button: () => card.querySelector('.choice button').click(),
  };
  const result = {};
  for (const [name, gesture] of Object.entries(gestures)) {
    gesture();
    await frame();
    const zoomed = range.textContent;
    key('ArrowRight');
    await frame();
    const moved = range.textContent;
    key('0');
    await frame();
    result[name] = zoomed !== '' && moved !== '' && range.textContent === '';
  }
  key('ArrowDown');
  await frame();
  result.key_tells = card.querySelector('.told') !== null;
  card.querySelector('button.request').click();
  await frame();
  result.choice_tells = /output tokens in/.test(card.querySelector('.told').textContent);
  pointer('pointerdown', width - 1, 1, 'touch', 2);
  pointer('pointerup', width - 1, 1, 'touch', 2);
  await frame();
  result.tap_beside_clears = card.querySelector('.told') === null;
  return result;
})();

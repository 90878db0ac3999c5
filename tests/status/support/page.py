"""The status page in a browser: signed in, read and judged.

Lives here: what several files of tests do with the page. Never here: a test.
"""

import json
from contextlib import asynccontextmanager

from tests.status.support import chromium
from tests.status.support.browser import browsing

FOUND = chromium.find()

ENTER, ESCAPE, TAB = ("Enter", 13, "\r"), ("Escape", 27), ("Tab", 9)

CONTRASTS = """
(() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((one) => one / 255)
      .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const rgb = parts(getComputedStyle(one).backgroundColor);
      if (rgb.length === 3 || rgb[3] > 0) return rgb;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!own || box.width < 2 || box.height < 2 || element.closest('noscript, [hidden], .skip, svg .mark')) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([element.textContent.slice(0, 40), ratio]);
  }
  return poor;
})()
"""


@asynccontextmanager
async def shown(status, token, width=1280, *, dark=False, keep=False):
    """The page after a user has signed in with this token."""
    async with browsing(FOUND) as tab:
        await tab.show(f"{status.url}/", width, dark=dark)
        await enter(tab, token, keep=keep)
        yield tab


async def enter(tab, token, *, keep=False):
    await tab.until("!document.getElementById('door').hidden")
    await tab.run(
        f"document.getElementById('token').value = {json.dumps(token)};"
        f"document.getElementById('keep').checked = {json.dumps(keep)};"
        "document.getElementById('door-form').requestSubmit(); true"
    )
    await tab.until("!document.getElementById('shown').hidden")


async def text(tab, place="body"):
    return await tab.run(f"document.querySelector({json.dumps(place)}).innerText")

"""How the page looks, and what its script does: it refuses a file that is too large, or no video, before it is sent."""

from __future__ import annotations

import json

from earsight.app.limits import PageLimits
from earsight.app.upload import too_large

NO_VIDEO = (
    "Expected a video, such as mp4, mov, mkv or webm, but this file is of another kind. "
    "Choose a video; a sound alone can go under “Swap the sound”."
)
"""What is said of a file that is no video, before it is sent."""
NO_PREVIEW = "Your browser cannot play this kind of video. It can be localized all the same."
"""What is said in place of an error that a browser's player makes of it."""
CSS = """
html, body { overflow-x: hidden; }
main, .gradio-container { width: 100% !important; }
.gradio-container { max-width: 1240px !important; margin: 0 auto !important; }
footer { display: none !important; }
#es-head h1 { margin: 0; font-size: 1.9rem; letter-spacing: -0.02em; }
#es-head p { margin: .25rem 0 0; opacity: .75; }
.es-notice { border: 1px solid #d1422f66; border-left: 5px solid #d1422f; background: #d1422f14; border-radius: 8px;
  padding: .8rem 1rem; font-size: .95rem; line-height: 1.45; overflow-wrap: anywhere; }
.es-verdict { border-left: 6px solid var(--ink); border-radius: 8px; padding: .6rem .9rem;
  background: color-mix(in srgb, var(--ink) 9%, transparent); }
.es-verdict b { font-size: 1.15rem; color: var(--ink); }
.es-verdict small { opacity: .75; display: block; }
.es-heard { margin-left: .6rem; font-size: .85rem; opacity: .8; }
.es-bar { display: flex; height: 6px; border-radius: 3px; overflow: hidden; margin: .45rem 0 .3rem; }
.es-bar i { display: block; height: 100%; }
.es-plot { width: 100%; height: auto; display: block; overflow: visible; }
.es-plot text { font-size: 11.5px; fill: currentColor; opacity: .65; }
.es-two .es-plot text { font-size: 18px; }
.es-plot .es-line { fill: none; stroke: #9aa1ab; stroke-width: 1.6; }
.es-plot .es-grid { stroke: currentColor; opacity: .12; }
.es-plot .es-threshold { stroke: currentColor; stroke-dasharray: 5 4; opacity: .6; }
.es-plot .es-here { stroke: #f59e0b; stroke-width: 2; opacity: .8; }
.es-legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .82rem; opacity: .85; }
.es-legend i { display: inline-block; width: .65rem; height: .65rem; border-radius: 50%; margin-right: .35rem; }
.es-frame { margin: 0; }
.es-frame img { width: 100%; max-height: 420px; object-fit: contain; border-radius: 8px; background: #0001; }
.es-frame figcaption { font-size: .9rem; padding-top: .25rem; }
.es-model { font-weight: 600; font-size: 1.02rem; }
.es-empty { border: 1px dashed currentColor; border-radius: 10px; padding: 2.2rem 1rem; text-align: center;
  opacity: .55; }
#es-clip video { max-height: 300px; }
.es-or { text-align: center; opacity: .65; font-size: .9rem; }
#es-samples { min-height: 0 !important; height: auto !important; }
#es-samples .grid-wrap { max-height: none !important; min-height: 0 !important; height: auto !important; padding: 0; }
#es-samples .caption-label { left: 6px; right: auto; bottom: 6px; max-width: calc(100% - 12px); font-size: .78rem;
  padding: .1rem .4rem; opacity: 1; }
#es-message .wrap, #es-message { min-height: 0; }
#es-results .html-container, #es-message .html-container { padding: 0 !important; }
@media (max-width: 640px) {
  .gradio-container { padding: .6rem !important; }
  #es-head h1 { font-size: 1.5rem; }
  .es-plot text { font-size: 17px; }
  button { min-height: 42px; }
}
"""

_SCRIPT = """
(() => {
  const most = MOST, words = WORDS, kind = KIND, preview = PREVIEW;
  const tell = text => {
    const place = document.querySelector('#es-message');
    if (!place) return;
    let box = document.querySelector('#es-too-large');
    if (!box) {
      box = document.createElement('div');
      box.id = 'es-too-large'; box.className = 'es-notice'; box.setAttribute('role', 'alert');
      place.parentNode.insertBefore(box, place);
    }
    box.textContent = text; box.style.display = text ? '' : 'none';
    if (text) box.scrollIntoView({block: 'center'});
  };
  const look = (event, files) => {
    if (!files || !files.length) return;
    const clip = event.target && event.target.closest && event.target.closest('#es-clip');
    const wrong = [...files].some(file => file.size > most) ? words
      : clip && [...files].some(file => file.type && !file.type.startsWith('video/')) ? kind : '';
    if (wrong) {
      event.stopImmediatePropagation(); event.preventDefault();
      if (event.target && event.target.type === 'file') event.target.value = '';
    }
    tell(wrong);
  };
  const input = e => e.target && e.target.type === 'file' ? e.target.files : null;
  document.addEventListener('change', e => look(e, input(e)), true);
  document.addEventListener('drop', e => look(e, e.dataTransfer && e.dataTransfer.files), true);
  document.addEventListener('paste', e => look(e, e.clipboardData && e.clipboardData.files), true);
  const watch = () => new MutationObserver(() => {
    for (const toast of document.querySelectorAll('.toast-body:not([hidden])')) {
      if (!toast.textContent.includes('Video not playable')) continue;
      toast.hidden = true; toast.style.display = 'none'; tell(preview);
    }
  }).observe(document.body, {childList: true, subtree: true});
  if (document.body) watch(); else document.addEventListener('DOMContentLoaded', watch);
})();
"""


def head(limits: PageLimits) -> str:
    """The script of the page."""
    values = {"MOST": limits.bytes, "WORDS": too_large(limits.megabytes), "KIND": NO_VIDEO, "PREVIEW": NO_PREVIEW}
    script = _SCRIPT
    for name, value in values.items():
        script = script.replace(name, json.dumps(value).replace("<", "\\u003c"))
    return f"<script>{script}</script>"

"""Colours and letters of the page, with letters that every machine has: nothing is fetched."""

from __future__ import annotations

import gradio as gr


def theme() -> gr.themes.Base:
    """Gradio's plain theme in the colours of the heat maps."""
    return gr.themes.Soft(
        primary_hue=gr.themes.colors.orange,
        secondary_hue=gr.themes.colors.amber,
        neutral_hue=gr.themes.colors.slate,
        font=["ui-sans-serif", "system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    )

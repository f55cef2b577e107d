"""How Sphinx draws the site: offline, from the pages that build.py has laid out."""

from lengthwise import __version__

project, author, release = "Lengthwise", "The Lengthwise authors", __version__
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "pydata_sphinx_theme"
html_title = "Lengthwise"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
    "navigation_depth": 2,
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}
copyright = "Lengthwise, Apache 2.0"
html_context = {"default_mode": "auto"}
html_show_search_summary = False  # it would fetch pages, which no browser does from disk

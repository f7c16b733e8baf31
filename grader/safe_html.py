"""HTML of students and cards, made safe for a page that a teacher opens."""

import re

import jinja2
import nh3
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

TAGS = {
    "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt",
    "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd",
    "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "summary", "sup", "table",
    "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
}  # fmt: skip
ATTRIBUTES = {
    "*": {"class", "id", "title"},
    "a": {"href"},
    "img": {"src", "alt", "width", "height"},
    "div": {"style"},
    "span": {"style"},
    "table": {"style"},
    "td": {"style", "colspan", "rowspan"},
    "th": {"style", "colspan", "rowspan", "scope"},
}
STYLES = {
    "background-color", "border-left", "color", "font-size", "font-weight", "margin",
    "margin-right", "padding", "text-align", "vertical-align", "white-space",
}  # fmt: skip
PICTURES = ("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/svg+xml;base64,")


def clean(html):
    """`html` without anything active or fetched from elsewhere, in place of nbconvert's filter.

    Text, mathematics, tables and pictures that come with the page stay.
    """
    html = html.decode() if isinstance(html, bytes) else str(html)
    return nh3.clean(
        html,
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_own_pictures_only,
        filter_style_properties=STYLES,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel="noopener noreferrer",
    )


@jinja2.pass_context
def markdown_to_html(context, source):
    """Markdown as safe HTML, in place of nbconvert's `markdown2html`.

    nbgrader's pages show a student's Markdown straight from that filter,
    whatever `sanitize_html` says.
    """
    attachments = context.get("cell", {}).get("attachments", {})
    renderer = IPythonRenderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    lost = [name for name in re.findall(r"attachment:([^)\s]+)", source) if name not in attachments]
    for name in lost:  # nbconvert would stop at a picture that is gone
        source = source.replace(f"attachment:{name}", "")
    return clean(MarkdownWithMath(renderer=renderer).render(source))


def _own_pictures_only(tag, attribute, value):
    if attribute == "src":
        return value if value.startswith(PICTURES) else None
    if attribute == "href" and value.strip().lower().startswith("data:"):
        return None
    return value

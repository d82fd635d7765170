"""Hooks of MkDocs: the site also has README, results and the files that pages link to, and shows formulas without a network.

A page links to other files of the tree as it does in the repository. Here each link is led to the place of its target in the
site: a file under docs/ by its name below docs/, a page of the project under its own path, any other file under source/.
"""
import os
import pathlib
import re

from latex2mathml.converter import convert
from mkdocs.structure.files import File

TREE = pathlib.Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/README.md"]  # outside docs/ and results/
LINK = re.compile(r'(\]\()([^)\s#]+)((?:#[^)\s]*)?(?: "[^"]*")?\))')
CODE = re.compile(r"(?ms)^```.*?^```|^    .*?$|`[^`\n]*`")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)


def pages_outside_docs():
    return [path for path in PAGES if (TREE / path).exists()] + [str(p.relative_to(TREE)) for p in sorted((TREE / "results").rglob("*.md"))]


def place_of(path):
    """Where a file of the tree is in the site, relative to its root."""
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path in pages_outside_docs() else f"source/{path}"


def source_of(place):
    """The file of the tree that a page of the site was made from."""
    if place == "index.md":
        return "README.md"
    return place if place in pages_outside_docs() else f"docs/{place}"


def links_of(source, text):
    """Targets inside the tree, as written and as paths from its root."""
    for match in LINK.finditer(CODE.sub("", text)):
        if "://" in match[2] or match[2].startswith("mailto:"):
            continue
        yield match[2], os.path.normpath(os.path.join(os.path.dirname(source), match[2]))


def on_files(files, config):
    outside = pages_outside_docs()
    for path in outside:
        files.append(File.generated(config, place_of(path), abs_src_path=str(TREE / path)))
    known = {file.src_uri for file in files}
    for file in list(files):
        if not file.is_documentation_page():
            continue
        source = source_of(file.src_uri)
        for _, target in links_of(source, (TREE / source).read_text(encoding="utf-8")):
            if not target.startswith("docs/") and (TREE / target).is_file() and place_of(target) not in known:
                known.add(place_of(target))
                files.append(File.generated(config, place_of(target), abs_src_path=str(TREE / target)))
    return files


def on_page_markdown(markdown, page, config, files):
    source, here = source_of(page.file.src_uri), os.path.dirname(page.file.src_uri)
    moved = {}
    for written, target in links_of(source, markdown):
        if (TREE / target).is_dir() and (TREE / target / "README.md").exists():
            target = os.path.join(target, "README.md")
        if (TREE / target).is_file():
            moved[written] = os.path.relpath(place_of(target), here or ".")
    kept = []  # code stays as it is

    def keep(match):
        kept.append(match[0])
        return f"\0{len(kept) - 1}\0"

    text = CODE.sub(keep, markdown)
    text = LINK.sub(lambda m: m[1] + moved.get(m[2], m[2]) + m[3], text)
    return re.sub(r"\0(\d+)\0", lambda m: kept[int(m[1])], text)


def on_page_content(html, page, config, files):
    def formula(match):
        latex = match[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return convert(latex, display="block" if match[1] == "div" else "inline")

    return FORMULA.sub(formula, html)

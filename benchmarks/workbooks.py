"""Workbooks made by hand: the least that a spreadsheet program writes."""

import io
import zipfile
from html import escape


def zipped(files):
    """Return an archive of files by name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            # without the time: the same bytes again
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def xlsx(sheets):
    """Return a workbook of sheets by name, each a list of rows of text, numbers or None."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    files = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="xml" '
        'ContentType="application/xml"/><Default Extension="rels" ContentType="application/'
        'vnd.openxmlformats-package.relationships+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    }
    listed, related = "", ""
    for k, (name, rows) in enumerate(sheets.items(), 1):
        listed += f'<sheet name="{escape(name)}" sheetId="{k}" r:id="s{k}"/>'
        related += (
            f'<Relationship Id="s{k}" Type="{office}/worksheet" Target="worksheets/{k}.xml"/>'
        )
        body = "".join(
            f'<row r="{i}">{"".join(_cell(i, j, value) for j, value in enumerate(row))}</row>'
            for i, row in enumerate(rows, 1)
        )
        files[f"xl/worksheets/{k}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>'
        )
    files["xl/workbook.xml"] = (
        f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>'
    )
    files["xl/_rels/workbook.xml.rels"] = (
        f'<Relationships xmlns="{package}/relationships">{related}</Relationships>'
    )
    return zipped(files)


def _cell(row, column, value):
    place = f"{chr(65 + column)}{row}"
    if value is None:
        return ""
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def ods(sheets):
    """Return the same as an OpenDocument spreadsheet."""
    names = {name: f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0" for name in
             ("office", "table", "text")}  # fmt: skip
    spaces = " ".join(f'xmlns:{name}="{uri}"' for name, uri in names.items())
    tables = ""
    for name, rows in sheets.items():
        body = "".join(
            f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows
        )
        tables += f'<table:table table:name="{escape(name)}">{body}</table:table>'
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    content = (
        f'<?xml version="1.0" encoding="UTF-8"?><office:document-content {spaces}><office:body>'
        f"<office:spreadsheet>{tables}</office:spreadsheet></office:body></office:document-content>"
    )
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/>'
        "</manifest:manifest>"
    )
    return zipped({"mimetype": kind, "content.xml": content, "META-INF/manifest.xml": manifest})


def _ods_cell(value):
    if value is None:
        return "<table:table-cell/>"
    if isinstance(value, str):
        return (
            f'<table:table-cell office:value-type="string"><text:p>{escape(value)}</text:p>'
            "</table:table-cell>"
        )
    return f'<table:table-cell office:value-type="float" office:value="{value}"/>'

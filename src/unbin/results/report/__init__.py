"""The record a fit or an audit leaves behind: one self-contained page that opens offline."""

from unbin.results.report.audit_page import render_audit
from unbin.results.report.page import render_report, write_report

__all__ = ["render_audit", "render_report", "write_report"]

"""The record a fit leaves behind: one self-contained page that opens offline."""

from unbin.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]

"""From a request to a plan, in pure functions: check, derive, select, render, lay out. No browser, no files but
templates.
"""

"""Pages made by sphinx-gallery are copies: their scripts run when the site is built."""

collect_ignore = ["gallery"]

"""The HTTP service and its page: audits, cloaks and saved maps for people and programs that do not run commands."""

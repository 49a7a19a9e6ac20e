"""Reports: a folder with a web page, numbers, records, tables and figures; and reports beside each other."""

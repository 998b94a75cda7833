"""Every table of a campaign for spreadsheets and programs. One file a subject: each table with its columns, their units and its rows."""

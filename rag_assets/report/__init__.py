"""What people and programs are shown: rows, terminal tables and the HTML report."""

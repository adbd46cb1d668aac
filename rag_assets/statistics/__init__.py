"""How sure a number is: intervals, paired tests, and what so many queries can show at all."""

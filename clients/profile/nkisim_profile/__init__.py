"""Makes reports from the profile file of a simulated run (`nkisim run --session FILE`): AWS's
tables, HTML, comparison.
"""

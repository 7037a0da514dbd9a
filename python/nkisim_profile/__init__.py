"""Makes reports from a saved session (`nkisim run --session FILE`): AWS's tables, HTML, comparison."""

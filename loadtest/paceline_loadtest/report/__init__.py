"""What a load test found: the JSON document, where the time went, pages and comparisons."""

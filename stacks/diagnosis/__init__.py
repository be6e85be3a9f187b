"""Why a pool would or would not scale: findings from plain data, and what gathers the data without writing anything."""

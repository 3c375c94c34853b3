"""The report: figures and tables from the summaries of sweeps (python -m reproduce.report).

Nothing here trains or needs torch: it reads results/<task>/<scale>/summary.json and what lies beside it.
"""

from reproduce.report.adaptive_batch_tables import format_adaptive_batch
from reproduce.report.comparison_tables import format_comparison
from reproduce.report.goal_tables import format_table
from reproduce.report.line_search_tables import format_line_search
from reproduce.report.linear_rule_tables import format_linear_rule
from reproduce.report.write import write_report, write_task_report

__all__ = [
    "format_adaptive_batch",
    "format_comparison",
    "format_line_search",
    "format_linear_rule",
    "format_table",
    "write_report",
    "write_task_report",
]

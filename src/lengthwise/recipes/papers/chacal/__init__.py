"""ChaCAL (Fagnou et al. 2024), attention that follows chains of references: Tables 1 to 3 and Figure 5."""

from . import figure_5, table_1, table_2, table_3
from .chains import AttentionColumn, plan_chains

__all__ = ["AttentionColumn", "figure_5", "plan_chains", "table_1", "table_2", "table_3"]

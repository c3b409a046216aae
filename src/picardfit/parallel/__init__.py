"""An ordered map over an executor, ledger, progress."""

"""The runs that figures are drawn from are those of the report's tests."""

from tests.report.conftest import runs as runs

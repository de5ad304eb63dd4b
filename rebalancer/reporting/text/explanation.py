"""The explanation as text: the verdict, then questions with answers and evidence."""

from rebalancer.reporting.documents.explanation import ExplanationDocument


def explanation_text(document: ExplanationDocument) -> str:
    """Show an explanation."""
    reason = f" ({document.reason})" if document.reason else ""
    lines = [f"{document.object}: {document.verdict}{reason}"]
    for answer in document.path:
        lines += ["", answer.question, f"  {answer.answer}"]
        lines += [f"  {line}" for line in answer.evidence.splitlines()]
    return "\n".join([*lines, ""])

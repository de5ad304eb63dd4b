"""The JSON documents: Report, Plan, Explanation, Prediction, Suggestion, Status."""

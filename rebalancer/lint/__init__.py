"""What a manifest will do once it is deployed: findings with the fact, the numbers, and the smallest change."""

"""What a manifest will do, before it is deployed: findings with the fact, the numbers, and the smallest change."""

"""FLAME: users who send coordinates of their updates through a shuffler to an analyzer."""

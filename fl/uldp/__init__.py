"""Uldp-FL: user-level privacy across silos, by Kato, Xiong, Takagi, Cao and Yoshikawa 2024."""

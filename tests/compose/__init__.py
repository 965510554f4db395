"""`deploy/verify-compose`: docker-compose.yml on a real engine, from no image to judged traffic.

`engine` runs Docker and Compose; `checks` is what must hold; `__main__` the order of it all.
"""

import os

SECRET_KEY = "of a test"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.postgres", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "HOST": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
                         "USER": os.environ["PGUSER"], "NAME": os.environ["PGDATABASE"]}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEST_RUNNER = "project.runner.ShardRunner"
USE_TZ = True

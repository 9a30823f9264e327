import argparse

from headroom_headers import include, prefix

parser = argparse.ArgumentParser(prog="python -m headroom_headers")
group = parser.add_mutually_exclusive_group(required=True)
group.add_argument("--includes", action="store_const", dest="text", const=f"-I{include}", help="the compiler flag")
group.add_argument("--prefix", action="store_const", dest="text", const=prefix, help="the directory for CMAKE_PREFIX_PATH")
print(parser.parse_args().text)

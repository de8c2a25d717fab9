build-vm/util/json_source.o: src/util/json_source.c \
 src/util/json_source.h
src/util/json_source.h:
